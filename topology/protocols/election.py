"""The centre of a routing tree, found by brokers that only talk to their neighbours (Agele, section 4).

The centre is the broker whose farthest broker is nearest (the least *eccentricity*); a tree has one, or two that are
neighbours, and then the smaller name counts. `topology.centre` finds the same in one place.

1. INIT runs from whoever starts to everybody.
2. Leaves answer with UPDATE: how far it is to the farthest broker behind this link. A broker hands on what raises the value
   for a neighbour. What it told a neighbour is final (*stable*) once all its other neighbours say that theirs is. When all
   are final, the broker knows its eccentricity.
3. Neighbours compare eccentricities. Whoever has none below its own is a centre, and says so to everybody.

That takes at most (L+4)(M-1) messages with M brokers, L of them leaves: for each link one INIT, two ECCENTRICITY, one CENTRE,
and in phase 2 no more than one for each leaf, since a message there causes at most one on each other link. This
counts only because STABLE rides on the UPDATE that becomes final; sent apart, it would not fit.

A *patient* broker sends an UPDATE only when it is final: one in each direction of a link, 6(M-1) messages in all. It knows no
less and no later, since nothing is decided before values are final.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tidings.errors import UnknownBroker
from topology.centre import Tree, checked
from topology.protocols.network import InOrder, Network, Schedule, Timed


class Round(NamedTuple):
    """Which start a message belongs to. Where two meet, the higher one wins."""

    counter: int
    starter: str


@dataclass(frozen=True, slots=True)
class Init:
    """A round begins."""

    round: Round


@dataclass(frozen=True, slots=True)
class Update:
    """The farthest broker behind the sender is, as far as known, this many hops from the receiver."""

    round: Round
    eccentricity: int
    stable: bool


@dataclass(frozen=True, slots=True)
class Stable:
    """What the last UPDATE said has turned out to be final."""

    round: Round


@dataclass(frozen=True, slots=True)
class Eccentricity:
    """The farthest of all brokers is this many hops from the sender."""

    round: Round
    eccentricity: int


@dataclass(frozen=True, slots=True)
class Centre:
    """These are the centres, in the order of their names."""

    round: Round
    centres: tuple[str, ...]


Message: TypeAlias = Init | Update | Stable | Eccentricity | Centre
Outputs: TypeAlias = list[tuple[str, Message]]


@dataclass(slots=True)
class _Heard:
    """What the neighbours have said in one round.

    The two largest values are all that is needed: a neighbour is told the largest of the others, plus one.
    """

    unstable: set[str]
    farthest: int = 0
    behind: str = ""
    runner_up: int = 0
    eccentricities: dict[str, int] = field(default_factory=dict)


class CentreNode:
    """One broker's part in finding the centre. Its methods return what it sends, and to which neighbour.

    A change among its neighbours starts a new round. Rounds are ordered, everybody follows the highest one, and within a round
    a broker's neighbours never change; so whatever happened before, the last round of a tree is one that nothing disturbed.
    The two ends of a link may notice a change at different times. ``gatherer`` is None while the round has not come to its end.
    """

    def __init__(self, name: str, neighbours: Iterable[str] = (), *, patient: bool = False) -> None:
        self.name = name
        self.patient = patient
        self.round = Round(0, "")
        self.eccentricity: int | None = None
        self.centres: tuple[str, ...] = ()
        self._neighbours = dict.fromkeys(sorted(neighbours))
        self._latest = 0
        self._heard = _Heard(set(self._neighbours))

    @property
    def neighbours(self) -> tuple[str, ...]:
        return tuple(self._neighbours)

    @property
    def gatherer(self) -> str | None:
        """The broker that gathers, once it is known: of two centres the one with the smaller name."""
        return min(self.centres, default=None)

    @property
    def is_gatherer(self) -> bool:
        return self.gatherer == self.name

    def start(self) -> Outputs:
        """Begin a round, higher than any heard of."""
        return self._entered(Round(self._latest + 1, self.name), None)

    def neighbour_joined(self, name: str) -> Outputs:
        """A link to this broker was made, perhaps again."""
        self._neighbours[name] = None
        return self.start()

    def neighbour_lost(self, name: str) -> Outputs:
        """The link to this broker went down."""
        if name not in self._neighbours:
            return []
        del self._neighbours[name]
        return self.start()

    def received(self, sender: str, message: Message, /) -> Outputs:
        """Take part in the round of a message, unless it is an old one."""
        if sender not in self._neighbours:
            # The other end noticed the new link first. The round that starts when we notice must outdo its round.
            self._latest = max(self._latest, message.round.counter)
            return []
        if message.round < self.round:
            return []
        outputs = self._entered(message.round, sender) if message.round > self.round else []
        match message:
            case Update():
                outputs += self._updated(sender, message.eccentricity, message.stable)
            case Stable():
                outputs += self._updated(sender, 0, stable=True)
            case Eccentricity():
                self._heard.eccentricities[sender] = message.eccentricity
                outputs += self._compared()
            case Centre():
                outputs += self._announced(message, sender)
        return outputs

    def _entered(self, round: Round, caller: str | None) -> Outputs:
        """Begin anew and pass the word on, but not back to whom it came from."""
        self.round = round
        self._latest = max(self._latest, round.counter)
        self.eccentricity = None
        self.centres = ()
        self._heard = _Heard(set(self._neighbours))
        init = Init(round)
        outputs: Outputs = [(neighbour, init) for neighbour in self._neighbours if neighbour != caller]
        if len(self._neighbours) == 1:
            outputs += [(neighbour, Update(round, 1, stable=True)) for neighbour in self._neighbours]
        elif not self._neighbours:
            outputs += self._concluded()
        return outputs

    def _updated(self, sender: str, eccentricity: int, stable: bool) -> Outputs:
        """A neighbour's value has grown, has become final, or both."""
        raised = self._raised(sender, eccentricity)
        settled = self._settled(sender) if stable else ()
        updated = settled if self.patient else raised
        outputs: Outputs = [(name, Update(self.round, self._value_for(name), name in settled)) for name in updated]
        if settled:
            outputs += [(name, Stable(self.round)) for name in settled if name not in updated]
        if not self._heard.unstable:
            outputs += self._concluded()
        return outputs

    def _raised(self, sender: str, eccentricity: int) -> Collection[str]:
        """Note a neighbour's value; for whom ours is larger now."""
        heard = self._heard
        if eccentricity > heard.farthest:
            if sender != heard.behind:
                heard.runner_up = heard.farthest
                heard.behind = sender
            heard.farthest = eccentricity
            return self._others(sender)
        if eccentricity > heard.runner_up and sender != heard.behind:
            heard.runner_up = eccentricity
            return (heard.behind,)
        return ()

    def _settled(self, sender: str) -> Collection[str]:
        """Note that a neighbour's value is final; for whom ours is final now."""
        unstable = self._heard.unstable
        unstable.discard(sender)
        if len(unstable) > 1:
            return ()
        # The last one to become final was told before; the others had to wait for it.
        return tuple(unstable) or self._others(sender)

    def _value_for(self, neighbour: str) -> int:
        heard = self._heard
        return 1 + (heard.runner_up if neighbour == heard.behind else heard.farthest)

    def _others(self, neighbour: str) -> Collection[str]:
        """All other neighbours: quick to look into, and in an order that does not change from run to run."""
        return dict.fromkeys(other for other in self._neighbours if other != neighbour)

    def _concluded(self) -> Outputs:
        """All values are final: tell the eccentricity that follows."""
        self.eccentricity = self._heard.farthest
        message = Eccentricity(self.round, self.eccentricity)
        return [*((neighbour, message) for neighbour in self._neighbours), *self._compared()]

    def _compared(self) -> Outputs:
        """Announce the centres, if this broker is the first of them.

        Along a path the eccentricity falls towards the centre, so no smaller one next to us means none anywhere. The paper
        also asks for a larger one: that says nothing more, and would leave two brokers, or one, without a centre.
        """
        own, others = self.eccentricity, self._heard.eccentricities
        if own is None or len(others) < len(self._neighbours) or any(other < own for other in others.values()):
            return []
        centres = sorted([self.name, *(neighbour for neighbour, other in others.items() if other == own)])
        # Two announcements would break the bound. Each of two centres knows of the other, so one is enough.
        return self._announced(Centre(self.round, tuple(centres)), None) if centres[0] == self.name else []

    def _announced(self, message: Centre, caller: str | None) -> Outputs:
        self.centres = message.centres
        return [(neighbour, message) for neighbour in self._neighbours if neighbour != caller]


@dataclass(frozen=True, slots=True)
class Election:
    """What became of a round: who gathers, all centres, and how many messages it took."""

    gatherer: str
    centres: tuple[str, ...]
    messages: int
    by_kind: Mapping[str, int]


def elected(tree: Tree, *, starter: str | None = None, patient: bool = False) -> Election:
    """Let the brokers of a tree find their centre, begun by ``starter``, or else by the first by name.

    Messages arrive in the order they are sent. Raises ``BadOverlay`` for what is no tree.

    >>> elected({"a": ["b"], "b": ["a", "c"], "c": ["b"]}).gatherer
    'b'
    """
    tree = checked(tree)
    nodes, network = _started(tree, min(tree) if starter is None else starter, patient, InOrder())
    network.run(message_bound(tree))
    return _outcome(nodes, network)


def election_time(tree: Tree, delay: Callable[[str, str], float], starter: str, patient: bool = False) -> tuple[float, Election]:
    """The same with a delay for each direction of a link; also says when the last broker learned who gathers."""
    tree = checked(tree)
    timed: Timed[Message] = Timed(delay)
    nodes, network = _started(tree, starter, patient, timed)
    learned = 0.0
    for flight in network.deliveries(message_bound(tree)):
        if isinstance(flight.message, Centre):
            learned = timed.now
    return learned, _outcome(nodes, network)


def message_bound(tree: Tree) -> int:
    """The most messages that one start may cost: (L+4)(M-1) for M brokers with L leaves (section 4.2.3)."""
    leaves = sum(1 for neighbours in tree.values() if len(neighbours) == 1)
    return (leaves + 4) * (len(tree) - 1)


def _started(
    tree: Tree, starter: str, patient: bool, schedule: Schedule[Message]
) -> tuple[dict[str, CentreNode], Network[Message]]:
    if starter not in tree:
        raise UnknownBroker(starter, "the start of the election")
    network: Network[Message] = Network(schedule)
    nodes = {broker: CentreNode(broker, neighbours, patient=patient) for broker, neighbours in tree.items()}
    for broker, node in nodes.items():
        network.add(broker, node)
    for broker, neighbours in tree.items():
        for neighbour in neighbours:
            if broker < neighbour:
                network.connect(broker, neighbour)
    network.inject(starter, nodes[starter].start())
    return nodes, network


def _outcome(nodes: Mapping[str, CentreNode], network: Network[Message]) -> Election:
    centres = next(iter(nodes.values())).centres
    return Election(min(centres), centres, network.messages, dict(network.by_kind))
