"""ADOCK: aggregate a range if a minimum vertex cover of what is known now has it (section VII-A, Algorithm 1).

Algorithm 1 asks whether two dummy items of the range make the maximum matching larger. One such item can be matched unless
every maximum matching gives the range an item already; a second one is never matched beside the first. So its answer is
"aggregate" exactly if the range is matched in every maximum matching. The matching that the graph keeps answers that with one
alternating search from the range; :func:`algorithm_1` is the algorithm as it was published, to compare with.

Where there are covers of the same size with and without the range, Algorithm 1 aggregates. (The paper's walk through Figure 3
forwards p3 and p4 for N_b instead, which its own algorithm does not do; both ways send two messages.)
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import TYPE_CHECKING, ClassVar

from streaming.windows.deciders.decision import Choice, ChoiceReason, Decision, Unlearned
from streaming.windows.graph import Graph, Range

if TYPE_CHECKING:
    import networkx

IN_COVER = Decision(Choice.AGGREGATE, ChoiceReason.IN_COVER)
NOT_IN_COVER = Decision(Choice.FORWARD, ChoiceReason.NOT_IN_COVER)


class Adock(Unlearned):
    """Needs nothing but the graph."""

    name: ClassVar[str] = "adock"

    def decide(self, graph: Graph, range_: Range, _now: int, /) -> Decision:
        return IN_COVER if graph.essential(range_) else NOT_IN_COVER


def algorithm_1(items: Mapping[int, Collection[Range]], range_: Range) -> bool:
    """Algorithm 1 to the letter: two maximum matchings, from scratch. Whether to aggregate."""
    import networkx  # only a check of the decider needs it

    graph: networkx.Graph[Hashable] = networkx.Graph((("item", item), each) for item, ranges in items.items() for each in ranges)
    before = _largest_matching(graph)
    graph.add_edges_from([(("dummy", 1), range_), (("dummy", 2), range_)])
    return before == _largest_matching(graph)


def _largest_matching(graph: networkx.Graph[Hashable]) -> int:
    import networkx

    top = [node for node in graph if not isinstance(node, Range)]
    return len(networkx.bipartite.hopcroft_karp_matching(graph, top)) // 2
