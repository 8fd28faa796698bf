"""Groups among rejected rows, and how wide a class is in the space in which they are grouped."""

from ._groups import Grouping as Grouping
from ._groups import group_rows as group_rows
from ._groups import k_means as k_means
from ._groups import nearest as nearest
from ._groups import nearest_of_each as nearest_of_each
from ._space import unit as unit
