"""Docstrings say what signatures say."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil

import pytest

import oslo_sklearn

pytest.importorskip("numpydoc")
from numpydoc.docscrape import ClassDoc, FunctionDoc

IGNORED = ("self", "cls")


# The command line documents itself, and solvers are what methods are made of.
NOT_FOR_USERS = ("__main__", "cli", "solvers", "baselines", "detectors")


def public_modules() -> list:
    names = [module.name for module in pkgutil.iter_modules(oslo_sklearn.__path__)]
    public = [name for name in names if name[0] != "_" and name not in NOT_FOR_USERS]
    return [oslo_sklearn, *(importlib.import_module(f"oslo_sklearn.{name}") for name in public)]


def public_objects() -> dict:
    """Classes and functions that users can name, and the package's own methods of the classes."""
    found = {}
    for module in public_modules():
        for name in getattr(module, "__all__", ()):
            obj = getattr(module, name)
            if inspect.isclass(obj) or inspect.isfunction(obj):
                found[f"{obj.__module__}.{name}"] = obj
    for name, cls in [item for item in found.items() if inspect.isclass(item[1])]:
        for attribute, member in inspect.getmembers(cls):
            is_ours = str(getattr(member, "__module__", "")).startswith("oslo_sklearn")
            if not attribute.startswith("_") and inspect.isroutine(member) and is_ours:
                found[f"{name}.{attribute}"] = member
    return found


OBJECTS = public_objects()


def documented(obj) -> list[str]:
    doc = ClassDoc(obj) if inspect.isclass(obj) else FunctionDoc(obj)
    sections = (*doc["Parameters"], *doc["Other Parameters"])
    return [name.strip().lstrip("*") for field in sections for name in field.name.split(",")]


def accepted(obj) -> list[str]:
    if inspect.isclass(obj) and issubclass(obj, Warning):
        return []  # it takes a message, as all warnings do
    return [name for name in inspect.signature(obj).parameters if name not in IGNORED]


def is_data(obj) -> bool:
    """A named tuple's fields are its attributes."""
    return inspect.isclass(obj) and issubclass(obj, tuple)


@pytest.mark.parametrize("name", OBJECTS)
def test_parameters_are_those_of_the_signature(name):
    obj = OBJECTS[name]
    doc = inspect.getdoc(obj)
    assert doc, "no docstring"
    if is_data(obj):
        listed = [field.name for field in ClassDoc(obj)["Attributes"]]
        assert not listed or listed == list(obj._fields)
    else:
        assert sorted(documented(obj)) == sorted(accepted(obj))


def test_all_rooms_are_covered():
    rooms = {name.split(".")[1] for name in OBJECTS}
    assert rooms >= {"oslo", "evaluation", "features", "metrics", "plotting", "recipes", "report"}
    assert len(OBJECTS) > 200


@pytest.mark.parametrize(("name", "cls"), oslo_sklearn.all_estimators())
class TestEstimators:
    def test_defaults_are_those_of_the_signature(self, name, cls):
        defaults = {p.name: p.default for p in inspect.signature(cls).parameters.values()}
        for field in ClassDoc(cls)["Parameters"]:
            if "default=" not in field.type:
                continue
            stated = field.type.split("default=")[1].strip()
            for each in field.name.split(","):
                assert ast.literal_eval(stated) == defaults[each.strip()], each

    def test_sections(self, name, cls):
        doc = ClassDoc(cls)
        assert doc["Summary"]
        assert doc["Attributes"]
        assert doc["Examples"]
