"""Arrays of other libraries under ``array_api_dispatch=True``: tensors in, tensors out.

scikit-learn's own checks of this run in test_common.py, because all estimators have the tag.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from helpers import make_task
from sklearn import config_context
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils import get_tags

import oslo_sklearn
from oslo_sklearn import (
    OSLO,
    CenterNormalize,
    ConformalOpenSetClassifier,
    FewShotOpenSetSplit,
    KNNDetector,
    NovelClassDiscovery,
    PowerTransform,
    TimmFeatureExtractor,
    evaluate,
    make_open_set_pipeline,
    make_open_set_scorer,
    suggest_rows,
)
from oslo_sklearn._array_api import as_numpy, place_of

strict = pytest.importorskip("array_api_strict")
try:
    with config_context(array_api_dispatch=True):
        pass
except (ImportError, RuntimeError) as error:
    pytest.skip(f"no array API dispatch: {error}", allow_module_level=True)

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
WRAPPERS = [ConformalOpenSetClassifier(random_state=0), NovelClassDiscovery(random_state=0)]
ESTIMATORS = [OSLO(), KNNDetector(), oslo_sklearn.LRICI(), *WRAPPERS]


@pytest.fixture
def dispatch():
    with config_context(array_api_dispatch=True):
        yield


@pytest.fixture
def task():
    return make_task(n_shot=4)


def tensors(task, device="cpu"):
    return [torch.tensor(array, device=device) for array in task[:3]]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_tensors_give_tensors_with_the_answers_of_arrays(estimator, deferred, device, task):
    support_X, support_y, query_X = tensors(task, device)
    expected = estimator.fit(*task[: 2 if deferred else 3]).transduce(task.query_X)
    with config_context(array_api_dispatch=True):
        estimator.fit(support_X, support_y, *([] if deferred else [query_X]))
        found = estimator.transduce(query_X)
        alone = {
            "labels": estimator.predict(query_X),
            "proba": estimator.predict_proba(query_X),
            "outlierness": estimator.score_samples(query_X),
        }
        log_proba = estimator.predict_log_proba(query_X)
        accuracy = estimator.score(query_X, torch.as_tensor(task.query_y, device=device))
    assert set(found) == set(expected)
    for name in found:
        assert isinstance(found[name], torch.Tensor), name
        assert found[name].device.type == device, name
        np.testing.assert_allclose(found[name].cpu(), expected[name], atol=2e-3, err_msg=name)
    for name, values in alone.items():
        assert values.device.type == device
        torch.testing.assert_close(values, found[name])
    torch.testing.assert_close(log_proba, found.proba.log())
    assert isinstance(accuracy, float)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_attributes_follow_the_support(estimator, task):
    with config_context(array_api_dispatch=True):
        fitted = estimator.fit(*tensors(task))
    names = ["labels_", "outlierness_"]
    names += {"NovelClassDiscovery": ["groups_", "exemplars_", "is_outlier_"]}.get(
        type(estimator).__name__, []
    )
    names += {"ConformalOpenSetClassifier": ["p_values_", "is_outlier_"]}.get(
        type(estimator).__name__, []
    )
    for name in names:
        assert isinstance(getattr(fitted, name), torch.Tensor), name
    assert isinstance(fitted.classes_, np.ndarray)
    # Without dispatch, arrays are answered in arrays, as ever.
    assert isinstance(fitted.score_samples(task.query_X), np.ndarray)
    fitted.fit(*tensors(task))
    assert isinstance(fitted.outlierness_, np.ndarray)


def test_without_dispatch_tensors_give_arrays(task):
    found = OSLO().fit(*tensors(task)).transduce(tensors(task)[2])
    assert {type(value) for value in found.values()} == {np.ndarray}


@pytest.mark.usefixtures("dispatch")
class TestDispatch:
    def test_labels_that_are_no_numbers_stay_in_numpy(self, task):
        support_X, _, query_X = tensors(task)
        names = np.array(list("abcde"))[task.support_y]
        oslo = OSLO(outlier_label="none").fit(support_X, names, query_X)
        labels = oslo.predict(query_X)
        assert isinstance(labels, np.ndarray)
        assert set(labels) <= {*"abcde", "none"}
        assert isinstance(oslo.score_samples(query_X), torch.Tensor)

    def test_an_outlier_label_goes_into_tensors(self, task):
        support_X, support_y, query_X = tensors(task)
        oslo = OSLO(outlier_label=-1).fit(support_X, support_y, query_X)
        torch.testing.assert_close(oslo.predict(query_X) == -1, oslo.transduce(query_X).is_outlier)

    def test_the_frame_is_of_arrays(self, task):
        support_X, support_y, query_X = tensors(task)
        frame = OSLO().fit(support_X, support_y, query_X).transduce(query_X).to_frame()
        expected = OSLO().fit(*task[:3]).transduce(task.query_X).to_frame()
        pd.testing.assert_frame_equal(frame, expected, atol=2e-3)

    def test_another_library_or_device_than_at_fit_is_refused(self, task):
        oslo = OSLO().fit(*tensors(task))
        with pytest.raises(ValueError, match=r"OSLO\.predict\(\) must use the same namespace"):
            oslo.predict(task.query_X)
        # Fitted on arrays, all that is stored can be moved to where the rows are.
        oslo.fit(*task[:3])
        assert isinstance(oslo.predict(tensors(task)[2]), torch.Tensor)

    def test_a_moved_estimator_answers_in_its_new_place(self, task):
        oslo = OSLO().fit(*tensors(task))
        moved = oslo.__sklearn_array_api_convert__(as_numpy)  # what scikit-learn calls, from 1.9
        assert isinstance(moved.outlierness_, np.ndarray)
        assert isinstance(oslo.outlierness_, torch.Tensor)
        np.testing.assert_allclose(moved.score_samples(task.query_X), oslo.outlierness_, atol=2e-3)

    def test_a_strict_library_is_answered_in_its_arrays(self, task):
        """Of a device that is not the CPU's memory, as far as the library lets one know."""
        device = strict.Device("device1")
        given = [strict.asarray(array, device=device) for array in task[:3]]
        found = OSLO().fit(*given).transduce(given[2])
        for values in found.values():
            assert isinstance(values, type(given[0]))
            assert values.device == device

    def test_fitted_estimators_can_be_stored(self, task):
        oslo = OSLO().fit(*tensors(task))
        query_X = tensors(task)[2]
        loaded = pickle.loads(pickle.dumps(oslo))
        torch.testing.assert_close(loaded.score_samples(query_X), oslo.score_samples(query_X))

    @pytest.mark.parametrize("transformer", [CenterNormalize(), PowerTransform()], ids=repr)
    def test_transformers(self, transformer, task):
        X = tensors(task)[2]
        found = transformer.fit(X).transform(X)
        assert isinstance(found, torch.Tensor)
        with config_context(array_api_dispatch=False):
            expected = transformer.fit(task.query_X).transform(task.query_X)
        np.testing.assert_allclose(found, expected, atol=1e-6)

    def test_pipelines(self, task):
        support_X, support_y, query_X = tensors(task)
        with config_context(enable_metadata_routing=True):
            pipe = make_open_set_pipeline(MinMaxScaler(), OSLO())
            pipe.fit(support_X, support_y, query_X=query_X)
            assert isinstance(pipe.transduce(query_X).outlierness, torch.Tensor)

    def test_a_pipeline_inside_a_wrapper(self, task):
        support_X, support_y, query_X = tensors(task)
        pipe = make_pipeline(MinMaxScaler(), OSLO())
        found = NovelClassDiscovery(pipe).fit(support_X, support_y, query_X)
        assert isinstance(found.transduce(query_X).group, torch.Tensor)

    def test_searches_evaluation_and_suggestions(self, task):
        X, y = torch.tensor(task.query_X), torch.tensor(task.query_y)
        split = FewShotOpenSetSplit(n_way=3, n_query=5, n_open=2, n_tasks=3)
        search = GridSearchCV(
            make_pipeline(MinMaxScaler(), OSLO()),
            {"oslo__max_iter": [1, 2]},
            cv=[*split.split(task.query_X, task.query_y)],
            scoring=make_open_set_scorer("auroc"),
            refit=False,
            error_score="raise",
        )
        search.fit(X, y)
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()
        rows = evaluate({"OSLO": OSLO()}, X, task.query_y, split, progress=False)
        assert len(rows) == 3
        fitted = OSLO().fit(*tensors(task))
        assert isinstance(suggest_rows(fitted, X, 3, random_state=0), np.ndarray)

    def test_calibration_on_other_classes(self, task):
        base_X, base_y = torch.tensor(task.query_X), torch.tensor(task.query_y)
        split = FewShotOpenSetSplit(n_way=3, n_shot=4, n_query=5, n_open=2, n_tasks=20)
        guard = ConformalOpenSetClassifier(OSLO()).fit_base(base_X, base_y, split)
        assert isinstance(guard.fit(*tensors(task)).p_values_, torch.Tensor)


def test_tags_are_honest():
    for _, cls in oslo_sklearn.all_estimators():
        assert get_tags(cls()).array_api_support
    assert get_tags(CenterNormalize()).array_api_support
    assert not get_tags(TimmFeatureExtractor()).array_api_support


def test_what_is_no_array_counts_as_numpy():
    for X in (None, [[1.0]], pd.DataFrame([[1.0]]), "cat"):
        assert place_of(X).namespace is np
        assert as_numpy(X) is X
