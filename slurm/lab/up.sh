#!/usr/bin/env bash
# Bring up a real, throw-away, single-host Slurm as root, without systemd and without cgroups.
#   up.sh [PREFIX]          default PREFIX=/tmp/slurm-lab  (everything lives under it; /etc is not touched)
# Knobs (environment):
#   NODES=4 CPUS=2 MEM_MB=4000    fake nodes, each a slurmd of its own (slurmd -N) on 127.0.0.1
#   DBD=0|1                       1: also start mariadb + slurmdbd, so that sacct works
#   SEND_USER_SIGNAL=1|0          SlurmctldParameters=preempt_send_user_signal (submitit checkpoints on preemption only with it)
#   MAX_ARRAY=1001                MaxArraySize
#   SLURMD_TIMEOUT=30             seconds until a dead slurmd makes its node DOWN
#   GPUS=1                        fake GPUs a node (links to /dev/null as devices): --gpus-per-node works and sets CUDA_VISIBLE_DEVICES
#   EXTRA_CONF='Key=value\n...'   lines added to slurm.conf (e.g. AccountingStorageEnforce=limits)
#   INSTALL=1|0                   apt-get install what is missing
# Afterwards:  export SLURM_CONF=PREFIX/slurm.conf    (or: . PREFIX/env.sh)
set -euo pipefail
P=${1:-/tmp/slurm-lab}
NODES=${NODES:-4} CPUS=${CPUS:-2} MEM_MB=${MEM_MB:-4000} DBD=${DBD:-0}
SEND_USER_SIGNAL=${SEND_USER_SIGNAL:-1} MAX_ARRAY=${MAX_ARRAY:-1001} GPUS=${GPUS:-1} INSTALL=${INSTALL:-1}
CTLD_PORT=${CTLD_PORT:-26817} DBD_PORT=${DBD_PORT:-26819} DB_PORT=${DB_PORT:-26820} NODE_PORT0=${NODE_PORT0:-27000}
[ "$(id -u)" = 0 ] || { echo "up: needs root" >&2; exit 2; }
[ ! -e "$P/pids" ] || { echo "up: $P is already up (run down.sh $P)" >&2; exit 2; }

need=()
have() { command -v "$1" >/dev/null 2>&1; }
have slurmctld || need+=(slurmctld); have slurmd || need+=(slurmd)
have sbatch || need+=(slurm-client); have munged || need+=(munge)
if [ "$DBD" = 1 ]; then
  have slurmdbd || need+=(slurmdbd slurm-wlm-mysql-plugin)
  have mariadbd || need+=(mariadb-server)
fi
if [ ${#need[@]} -gt 0 ]; then
  [ "$INSTALL" = 1 ] || { echo "up: missing ${need[*]}" >&2; exit 2; }
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # no recommends: they would pull in some 35 more packages (database, RRD, HDF5 plugins)
  apt-get install -y -qq --no-install-recommends "${need[@]}" >"${TMPDIR:-/tmp}/slurm-apt.log" 2>&1 \
    || { tail -20 "${TMPDIR:-/tmp}/slurm-apt.log" >&2; exit 2; }
fi

HOST=$(hostname -s 2>/dev/null || cat /proc/sys/kernel/hostname)
VER=$(slurmctld -V | awk '{print $2}'); MAJ=${VER%%.*}
mkdir -p "$P"/{state,spool,log,run,munge}; chmod 755 "$P" "$P"/*; chmod 700 "$P/munge"
: >"$P/pids"
trap 'rc=$?; echo "up: failed at line $LINENO (rc $rc); logs in $P/log, then down.sh $P" >&2' ERR

# --- munge: a private key and socket, munged running as root (it refuses group/world-writable parents unless sticky)
mkdir -p "$P/munge-run"; chmod 755 "$P/munge-run"
dd if=/dev/urandom of="$P/munge/key" bs=128 count=1 status=none; chmod 400 "$P/munge/key"
SOCK=$P/munge-run/socket
munged --key-file "$P/munge/key" --socket "$SOCK" --pid-file "$P/munge-run/munged.pid" \
       --log-file "$P/munge/munged.log" --seed-file "$P/munge/seed" --num-threads 2
cat "$P/munge-run/munged.pid" >>"$P/pids"

# --- optional accounting database
ACCT="AccountingStorageType=accounting_storage/none"
if [ "$DBD" = 1 ]; then
  mkdir -p "$P/db"; DB=$P/db
  chown mysql:mysql "$DB"
  mariadb-install-db --no-defaults --datadir="$DB/data" --user=mysql --auth-root-authentication-method=normal \
      --skip-test-db >"$P/log/mariadb-install.log" 2>&1
  mariadbd --no-defaults --datadir="$DB/data" --user=mysql --socket="$DB/s" --pid-file="$DB/pid" \
      --bind-address=127.0.0.1 --port=$DB_PORT --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900 \
      --innodb-flush-log-at-trx-commit=0 --skip-log-bin >"$P/log/mariadb.log" 2>&1 &
  echo $! >>"$P/pids"
  for _ in $(seq 200); do mariadb --no-defaults -S "$DB/s" -u root -e 'select 1' >/dev/null 2>&1 && break; sleep .1; done
  mariadb --no-defaults -S "$DB/s" -u root -e "create database slurm_acct_db; create user slurm@'127.0.0.1' identified by 'x'; create user slurm@localhost identified by 'x'; grant all on slurm_acct_db.* to slurm@'127.0.0.1'; grant all on slurm_acct_db.* to slurm@localhost"
  cat >"$P/slurmdbd.conf" <<C
AuthType=auth/munge
AuthInfo=socket=$SOCK
DbdHost=$HOST
DbdAddr=127.0.0.1
DbdPort=$DBD_PORT
SlurmUser=root
PidFile=$P/run/slurmdbd.pid
LogFile=$P/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=$DB_PORT
StorageUser=slurm
StoragePass=x
StorageLoc=slurm_acct_db
C
  chmod 600 "$P/slurmdbd.conf"
  ACCT="AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=$DBD_PORT
AccountingStoragePass=$SOCK"
fi

# --- slurm.conf.  cred_expire: a requeued job waits for that long (default 120 s) before it may start again.
#     CommunicationParameters: listen on 127.0.0.1 only.  OverMemoryKill: 'OOM' without cgroups (state is then FAILED, not OUT_OF_MEMORY).
GRES=""; : >"$P/gres.conf"
if [ "$GPUS" -gt 0 ]; then
  GRES=" Gres=gpu:$GPUS"; mkdir -p "$P/dev"
  for i in $(seq 0 $((GPUS-1))); do ln -s /dev/null "$P/dev/gpu$i"; done   # must be a char device; the index is read off the name
  echo "AutoDetect=off
Name=gpu File=$P/dev/gpu[0-$((GPUS-1))]" >"$P/gres.conf"
fi
# spelled differently by version: 22.05 has it as a SlurmctldParameters flag
CTLDPARAM=""; [ "$SEND_USER_SIGNAL" = 1 ] && CTLDPARAM="SlurmctldParameters=preempt_send_user_signal"
{ cat <<C
ClusterName=lab
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$CTLD_PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$SOCK,cred_expire=${CRED_EXPIRE:-5}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation=$P/state
SlurmdSpoolDir=$P/spool/%n
SlurmctldPidFile=$P/run/slurmctld.pid
SlurmdPidFile=$P/run/slurmd-%n.pid
SlurmctldLogFile=$P/log/slurmctld.log
SlurmdLogFile=$P/log/slurmd-%n.log
SlurmctldDebug=info
SlurmdDebug=info
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=256
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=5,bf_interval=2
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
$CTLDPARAM
JobRequeue=1
MaxArraySize=$MAX_ARRAY
GresTypes=gpu
MaxJobCount=20000
MinJobAge=600
KillWait=5
SlurmdTimeout=${SLURMD_TIMEOUT:-30}
InactiveLimit=0
ReturnToService=2
JobCompType=jobcomp/filetxt
JobCompLoc=$P/log/jobcomp.txt
$ACCT
C
  for i in $(seq "$NODES"); do
    echo "NodeName=n$i NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((NODE_PORT0+i)) CPUs=$CPUS RealMemory=$MEM_MB$GRES State=UNKNOWN"
  done
  cat <<C
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE DefaultTime=10 PriorityTier=10 PreemptMode=OFF State=UP
PartitionName=scavenge Nodes=ALL MaxTime=INFINITE DefaultTime=10 PriorityTier=1 PreemptMode=REQUEUE GraceTime=${GRACE:-10} State=UP
PartitionName=scancel Nodes=ALL MaxTime=INFINITE DefaultTime=10 PriorityTier=1 PreemptMode=CANCEL GraceTime=${GRACE:-10} State=UP
C
  printf '%b\n' "${EXTRA_CONF:-}"
} >"$P/slurm.conf"
if [ "$MAJ" -ge 23 ]; then echo "CgroupPlugin=disabled" >"$P/cgroup.conf"; fi
export SLURM_CONF=$P/slurm.conf
{ echo "export SLURM_CONF=$P/slurm.conf"; echo "export SLURM_LAB=$P"; } >"$P/env.sh"

if [ "$DBD" = 1 ]; then
  # 22.05 finds slurmdbd.conf only beside slurm.conf (SLURM_CONF's folder)
  slurmdbd -D >"$P/log/slurmdbd.out" 2>&1 &
  echo $! >>"$P/pids"
  for _ in $(seq 300); do (exec 3<>/dev/tcp/127.0.0.1/$DBD_PORT) 2>/dev/null && break; sleep .1; done
  sacctmgr -i add cluster lab >"$P/log/sacctmgr.out" 2>&1 || true
fi
slurmctld -D >"$P/log/slurmctld.out" 2>&1 &
echo $! >>"$P/pids"
for i in $(seq "$NODES"); do
  mkdir -p "$P/spool/n$i"
  slurmd -D -N "n$i" >"$P/log/slurmd-n$i.out" 2>&1 &
  echo $! >>"$P/pids"
done
end=$((SECONDS+60))
while [ $SECONDS -lt $end ]; do
  for pid in $(cat "$P/pids"); do
    kill -0 "$pid" 2>/dev/null || { echo "up: pid $pid (a daemon) has died" >&2; end=0; break; }
  done
  n=$( (timeout 5 sinfo -h -N -p batch -t idle -o %N 2>/dev/null || true) | wc -l)
  [ "$n" -ge "$NODES" ] && { echo "slurm $VER up: $n nodes idle, SLURM_CONF=$P/slurm.conf"; exit 0; }
  sleep .1
done
trap - ERR
echo "up: nodes did not come up" >&2
for f in slurmdbd slurmctld slurmd-n1; do [ ! -e "$P/log/$f.out" ] || tail -n 12 "$P/log/$f.out" >&2; done
exit 1
