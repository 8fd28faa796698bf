import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from oslo_sklearn.metrics import _quality, mean_imposture_factor, variance_ratio


@pytest.fixture
def features():
    rng = np.random.default_rng(0)
    y = rng.choice(list("abcdefg"), 300)
    centroids = {c: rng.normal(size=5) for c in "abcdefg"}
    return np.stack([centroids[c] for c in y]) + rng.normal(size=(300, 5)), y


def plain_mif(X, y):
    distances = {c: np.linalg.norm(X - X[y == c].mean(axis=0), axis=1) for c in np.unique(y)}
    return 1 - np.mean([roc_auc_score(y != c, d) for c, d in distances.items()])


def test_mif_is_one_minus_the_mean_auroc(features, monkeypatch):
    X, y = features
    expected = plain_mif(X, y)
    assert mean_imposture_factor(X, y) == pytest.approx(expected, abs=1e-12)
    monkeypatch.setattr(_quality, "_BLOCK_ENTRIES", 700)
    assert mean_imposture_factor(X, y) == pytest.approx(expected, abs=1e-12)


def test_mif_survives_a_large_offset_in_single_precision(features):
    X, y = features
    far = (X + 1000).astype(np.float32)
    expected = plain_mif(far.astype(np.float64), y)
    assert mean_imposture_factor(far, y) == pytest.approx(expected, abs=1e-9)


def test_separated_classes_have_no_impostors():
    X = np.repeat(np.eye(4), 5, axis=0) + 1e-3 * np.random.default_rng(0).normal(size=(20, 4))
    y = np.repeat(np.arange(4), 5)
    assert mean_imposture_factor(X, y) == 0
    assert variance_ratio(X, y) < 1e-4


def test_noise_has_about_half_impostors():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4000, 8)), rng.integers(0, 4, 4000)
    assert mean_imposture_factor(X, y) == pytest.approx(0.5, abs=0.02)


def test_variance_ratio_is_its_formula(features):
    X, y = features
    groups = [X[y == c] for c in np.unique(y)]
    intra = np.mean([np.trace(np.cov(g.T, bias=True)) for g in groups])
    centroids = np.stack([g.mean(axis=0) for g in groups])
    inter = np.trace(np.cov(centroids.T, bias=True))
    assert variance_ratio(X, y) == pytest.approx(intra / inter)
    assert variance_ratio(7 * X + 3, y) == pytest.approx(intra / inter)


def test_variance_ratio_without_separation_is_infinite():
    assert variance_ratio([[0.0], [2.0], [0.0], [2.0]], [0, 0, 1, 1]) == np.inf
    assert np.isnan(variance_ratio([[1.0], [1.0]], [0, 1]))


@pytest.mark.parametrize("function", [mean_imposture_factor, variance_ratio])
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[0.0], [1.0]], [0, 0], "y must hold at least 2 classes"),
        ([[0.0], [1.0]], None, "y must be the class labels"),
        ([[0.0], [1.0]], [[0], [1]], "y must be of shape"),
        ([[0.0], [1.0]], [0.0, np.nan], "y must not contain NaN"),
        ([[0.0], [1.0]], np.array(["a", None], dtype=object), "y must hold sortable labels"),
        ([[0.0], [np.nan]], [0, 1], "X contains NaN"),
        ([0.0, 1.0], [0, 1], "2D array"),
        ([[0.0], [1.0]], [0, 1, 2], "inconsistent numbers of samples"),
    ],
)
def test_bad_input_is_refused(function, X, y, message):
    with pytest.raises(ValueError, match=message):
        function(X, y)
