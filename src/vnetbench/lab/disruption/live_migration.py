"""The event `live-migration`: a guest moves to another QEMU process while the flow runs through it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from vnetbench.agents.client import AgentError
from vnetbench.lab.errors import TrialFailed
from vnetbench.lab.guest.migration import GuestMigration
from vnetbench.study.factors.disruption_factors import LIVE_MIGRATION


class LiveMigration:
    """Migrates a guest once. The testbed then continues with the new process."""

    def __init__(self, migration: GuestMigration) -> None:
        """Make the event of a migration that is not prepared yet."""
        self._migration = migration
        self._process_before = migration.source.process.pid
        self._agent_before = 0
        self._ports_before: Mapping[str, str] = {}
        self._ports_after: Mapping[str, str] = {}
        self._is_restored = False

    @property
    def target(self) -> str:
        """See NetworkEvent."""
        return f"guest {self._migration.name}"

    def prepare(self) -> None:
        """See NetworkEvent. The new QEMU waits for the guest before the load starts."""
        self._agent_before = self._query_agent_process()
        self._migration.prepare()

    def observe_before(self) -> None:
        """See NetworkEvent."""
        self._ports_before = self._migration.ports.find_learned_ports()

    def begin(self) -> None:
        """See NetworkEvent."""
        self._migration.start()

    def has_ended(self) -> bool:
        """See SelfEndingEvent."""
        return self._migration.has_completed()

    def describe_progress(self) -> str:
        """See SelfEndingEvent."""
        return self._migration.describe_progress()

    def observe_during(self) -> None:
        """See NetworkEvent. Which port the switch uses now, before the end of the old QEMU changes it."""
        self._ports_after = self._migration.ports.find_learned_ports()

    def end(self) -> None:
        """See NetworkEvent."""
        self._migration.hand_over()

    def observe_after(self) -> None:
        """See NetworkEvent. QEMU's report is complete at the end."""

    def prove(self) -> Mapping[str, object]:
        """See NetworkEvent. The same agent has to answer through the new process."""
        report, target = self._migration.report, self._migration.target
        if report is None or target is None or target.pid == self._process_before:
            raise TrialFailed(f"event {LIVE_MIGRATION}: {self.target} did not migrate")
        if (agent := self._query_agent_process()) != self._agent_before:
            raise TrialFailed(
                f"event {LIVE_MIGRATION}: another agent ({agent}) answers in {self.target} than before "
                f"({self._agent_before})"
            )
        return {
            "qemu_process_before": self._process_before,
            "qemu_process_after": target.pid,
            "agent_process": agent,
            "learned_ports_before": dict(self._ports_before),
            "learned_ports_after": dict(self._ports_after),
            "migration": asdict(report),
        }

    def restore(self) -> None:
        """See NetworkEvent. The guest stays where it is: the next trial migrates it again."""
        if not self._is_restored:
            self._is_restored = True
            self._migration.close()

    def _query_agent_process(self) -> int:
        try:
            return int(self._migration.source.agent.call("agent.hello")["pid"])
        except AgentError as error:
            raise TrialFailed(f"event {LIVE_MIGRATION}: {error}") from error
