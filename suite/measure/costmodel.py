"""What a decode should take, from the passes and rows it needed: time = draft + a x passes + b x rows."""

import math
from collections.abc import Sequence

import numpy as np


def fit(passes: Sequence[float], rows: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Seconds a pass and seconds a row (least squares over prompts); NaN where the two cannot be told apart."""
    design = np.column_stack([passes, rows]).astype(float)
    if len(design) < 2 or np.linalg.matrix_rank(design, tol=1e-6 * max(1.0, float(np.abs(design).max()))) < 2:
        return math.nan, math.nan
    a, b = np.linalg.lstsq(design, np.asarray(seconds, float), rcond=None)[0]
    return float(a), float(b)
