"""What the closed runs of a job's workflow tell. Copy it with agent_jobs.py."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError

from agent_job_types import AgentJobResult

SURELY_NO_JOB = ("InvalidInput", "CreateRejected")
# A query of a closed run is answered by replay; longer means that no worker is there.
QUERY_LIMIT = timedelta(seconds=10)


class JobFailed(Exception):
    """The job ended without a result. `type` is its failure type, `Canceled`, `Terminated` or `TimedOut`."""

    def __init__(self, type: str, message: str, details: Any = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.details = details


class ClosedRuns:
    """What one call reads of a job's closed runs: once, however many rounds it takes, for it does not change."""

    def __init__(self, client: Client, workflow_id: str) -> None:
        self._client = client
        self._workflow_id = workflow_id
        self._ends: dict[str, AgentJobResult | JobFailed] = {}
        self._states: dict[str, Any] = {}
        self._at_once = asyncio.Semaphore(10)

    async def read(self, read_one: Callable[[str], Awaitable[Any]], run_ids: list[str]) -> list[Any]:
        async def limited(run_id: str) -> Any:
            async with self._at_once:
                return await read_one(run_id)

        return await asyncio.gather(*[limited(run_id) for run_id in run_ids])

    async def end_of(self, run_id: str) -> AgentJobResult | JobFailed:
        if run_id not in self._ends:
            try:
                self._ends[run_id] = await self._handle(run_id).result(follow_runs=False)
            except WorkflowFailureError as error:
                self._ends[run_id] = job_failed(error)
        return self._ends[run_id]

    async def final_state(self, run_id: str) -> Any:
        """A run's result or last state; None where there is surely no job. Raises where neither can be read."""
        end = await self.end_of(run_id)
        if not isinstance(end, JobFailed):
            return end
        if is_surely_no_job(end):
            return None
        if run_id not in self._states:
            unbegun = await self._unbegun_state(run_id)
            self._states[run_id] = unbegun or await self._handle(run_id).query(
                "jobState", {"isClosed": True}, rpc_timeout=QUERY_LIMIT
            )
        return self._states[run_id]

    async def _unbegun_state(self, run_id: str) -> Any:
        """A run that was ended before its first workflow task answers no query, and did nothing with its input."""
        given: Any = None
        async for event in self._handle(run_id).fetch_history_events(page_size=100):
            if event.workflow_execution_started_event_attributes.continued_execution_run_id:
                return None
            if event.HasField("workflow_task_completed_event_attributes"):
                return None
            given = given or await input_of(self._client, event)
        used = given.get("usedFollowUpIds") or []
        return {"jobId": given.get("jobId"), "job": None, "followUps": [], "usedFollowUpIds": used}

    def _handle(self, run_id: str) -> WorkflowHandle:
        return self._client.get_workflow_handle(self._workflow_id, run_id=run_id)


async def input_of(client: Client, started: HistoryEvent) -> Any:
    payloads = started.workflow_execution_started_event_attributes.input.payloads
    return (await client.data_converter.decode(payloads))[0]


def known_to(run: WorkflowExecutionDescription) -> list[str]:
    """The closed runs that the caller who started this run had read."""
    prefix = "agent-jobs/after/"
    request_ids = run.raw_description.workflow_extended_info.request_id_infos
    return [id.removeprefix(prefix) for id in request_ids if id.startswith(prefix)]


def unknown_to(run: WorkflowExecutionDescription, earlier: list[str]) -> list[str]:
    known = known_to(run)
    return [run_id for run_id in earlier if run_id not in known]


def is_surely_no_job(end: AgentJobResult | JobFailed) -> bool:
    return isinstance(end, JobFailed) and end.type in SURELY_NO_JOB


def job_failed(error: WorkflowFailureError) -> JobFailed:
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return JobFailed(cause.type or "Failed", cause.message, cause.details[0] if cause.details else None)
    ends = {CancelledError: "Canceled", TerminatedError: "Terminated"}
    return JobFailed(ends.get(type(cause), "TimedOut"), str(cause))
