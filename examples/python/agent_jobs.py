"""Agent jobs from Python: one key is one job, and a follow-up with an id is sent once. It needs temporalio.

The rules are those of docs/contract.md, "One key, one job", which our TypeScript client follows too.
"""

import asyncio
import contextlib
import hashlib
import re
import time
import uuid
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from temporalio.api.workflowservice.v1 import ExecuteMultiOperationRequest, StartWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError
from temporalio.service import RPCError, RPCStatusCode

FIELDS = set("projectId prompt jobId usedFollowUpIds priority batch tags metadata deadline startWithin polling".split())
FIELDS |= set("promptHashes onUnknownOutcome decideWithin settle polling.min polling.max polling.ratio".split())
ROUNDS = 5  # Each further one means that another caller went on from the same run, or that a start came too late.


class KeyConflict(Exception):
    """The key names a job with another input."""


class FollowUpRefused(Exception):
    """The follow-up was surely not sent: it is wrong, or there is no job to send it to."""


class FollowUpUnconfirmed(Exception):
    """The follow-up may or may not be sent: say it again with the same `id`."""

    def __init__(self, id: str) -> None:
        super().__init__(f"The follow-up {id} is not confirmed: say it again with the same id")
        self.id = id


class JobFailed(Exception):
    """The job ended without a result. `type` is its failure type, `Canceled`, `Terminated` or `TimedOut`."""

    def __init__(self, cause: BaseException | None) -> None:
        ends = {CancelledError: "Canceled", TerminatedError: "Terminated"}
        is_failure = isinstance(cause, ApplicationError)
        self.type = (cause.type or "Failed") if is_failure else ends.get(type(cause), "TimedOut")
        self.details = cause.details[0] if is_failure and cause.details else None
        super().__init__(f"{self.type}: {cause.message if is_failure else cause}")


class AgentJobs:
    def __init__(self, client: Client, task_queue: str = "agent-jobs") -> None:
        self.client, self.task_queue = client, task_queue

    def job(self, project_id: str, key: str) -> "Job":
        return Job(self.client, self.task_queue, f"agent-job/{quote(project_id, safe='')}/{quote(key, safe=':')}")

    async def start(self, key: str, given: dict[str, Any]) -> "Job":
        """Starts the job, or joins the one that key and input name; `is_new` says which. Raises KeyConflict."""
        for name in [*given, *(f"polling.{name}" for name in given.get("polling") or {})]:
            if name not in FIELDS:
                raise ValueError(f"{name} is no field that agent_jobs.py knows")
        if not given.get("projectId") or (given.get("prompt") is None) == (given.get("jobId") is None):
            raise ValueError("projectId must be given, and exactly one of prompt and jobId")
        job = self.job(given["projectId"], key or "")
        if not key or re.search(r"[\x00-\x1f\x7f-\x9f]", key) or len(job.workflow_id) > 255:
            raise ValueError("key must be text without control characters, and make an id of at most 255 characters")
        for _ in range(ROUNDS):
            if await job._start_or_join(given):
                return job
        raise KeyConflict(f"The key {key} is started again and again by others")


class Job:
    """A job by its workflow id. A follow-up after its end starts a further run of it."""

    def __init__(self, client: Client, task_queue: str, workflow_id: str) -> None:
        self.workflow_id, self.is_new, self.handle = workflow_id, False, client.get_workflow_handle(workflow_id)
        self._client, self._task_queue, self._read = client, task_queue, {}

    async def state(self) -> dict[str, Any]:
        return await self.handle.query("jobState")

    async def result(self) -> dict[str, Any]:
        """Waits for the end: a result, with its `outcome` and `prLink`, or JobFailed. A run ends once."""
        try:
            return await self.handle.result()
        except WorkflowFailureError as error:
            raise JobFailed(error.cause) from error

    async def follow_up(self, prompt: str, id: str | None = None) -> dict[str, Any]:
        """Sends a follow-up, and starts an ended job again for it. The same id is sent at most once, ever."""
        sent = {"prompt": prompt, "id": str(uuid.uuid4()) if id is None else id}
        if not all(map(is_text, sent.values())):
            raise FollowUpRefused("The prompt and the id must be well-formed text, of 1 byte to 512 KiB")
        try:
            for _ in range(ROUNDS):
                send = self.handle.execute_update("sendFollowUp", sent, id=update_id(sent))
                answer = await unless_ended(send) or await self._go_on(sent)
                if answer:
                    return answer
                await asyncio.sleep(0.2)
        except FollowUpRefused:
            raise
        except Exception as error:  # Whatever else it is, an attempt may have been taken.
            if isinstance(error, RPCError) and error.status == RPCStatusCode.NOT_FOUND:
                raise FollowUpRefused(f"There is no {self.workflow_id}") from error
            raise FollowUpUnconfirmed(sent["id"]) from error
        raise FollowUpUnconfirmed(sent["id"])

    async def _start_or_join(self, given: dict[str, Any]) -> bool:
        wanted = input_hash(given)
        call = self._client.workflow_service.start_workflow_execution
        first = await self._request(given, wanted, "REJECT_DUPLICATE", "FAIL")
        self.is_new = await self._send(call, first, timedelta(seconds=30), retry=True)
        if self.is_new:
            return True
        read_at, run = time.monotonic(), await self.handle.describe()
        if not await self._made_no_job(run):
            if await self._hash_of(run) != wanted:
                raise KeyConflict(f"{self.workflow_id} names a job with another input")
            return True
        before = await self._runs_before(run)
        if before is None:
            return False
        earlier, unread = before
        ends = await asyncio.gather(*[self._last_state(run_id, must_ask=False) for run_id in unread])
        if any(end is not None for end in ends):
            raise KeyConflict(f"An earlier run of {self.workflow_id} may have made a job")
        start = await self._request(given, wanted, "ALLOW_DUPLICATE_FAILED_ONLY", "USE_EXISTING", run.run_id)
        self.is_new = await self._send(call, start, time_left(read_at))
        await self._attach(earlier)
        return self.is_new and await self._hash_of(await self.handle.describe()) == wanted

    async def _go_on(self, sent: dict[str, str]) -> dict[str, Any] | None:
        """Starts the ended workflow id again, attached to the job, with the follow-up. The next round asks."""
        read_at, run = time.monotonic(), await self.handle.describe()
        if run.close_time is None:
            return None
        last = await self._last_state(run.run_id)
        if last is None or last["jobId"] is None:
            raise FollowUpRefused(f"{self.workflow_id} ended without a job")
        before = await self._runs_before(run)
        if before is None:
            return None
        earlier, unread = before
        states = [last, *filter(None, await asyncio.gather(*map(self._last_state, unread)))]
        states = [state for state in states if state["jobId"] in (None, last["jobId"])]
        used = list(dict.fromkeys(id for state in states for id in state["usedFollowUpIds"]))
        if sent["id"] in used:
            return answer_of(sent, states)
        known = {id: text for state in reversed(states) for id, text in state.get("promptHashes", {}).items()}
        hashes = {id: text for id, text in known.items() if id in used}
        job = {"prompt": None, "jobId": last["jobId"], "usedFollowUpIds": used, "promptHashes": hashes}
        attach = {**await self._input_of(run), **job}
        start = await self._request(attach, await self._hash_of(run), "ALLOW_DUPLICATE", "USE_EXISTING", run.run_id)
        args = {"payloads": await self._client.data_converter.encode([sent])}
        update = {
            "namespace": start.namespace,
            "workflow_execution": {"workflow_id": self.workflow_id},
            "wait_policy": {"lifecycle_stage": "UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED"},
            "request": {"meta": {"update_id": update_id(sent)}, "input": {"name": "sendFollowUp", "args": args}},
        }
        operations = [{"start_workflow": start}, {"update_workflow": update}]
        both = ExecuteMultiOperationRequest(namespace=start.namespace, operations=operations)
        await self._send(self._client.workflow_service.execute_multi_operation, both, time_left(read_at))
        await self._attach(earlier)
        return None

    async def _request(self, given: Any, hash: str | None, reuse: str, conflict: str, after: str | None = None) -> Any:
        """A start. After a closed run Temporal makes it once, however many callers go on from the same run."""
        encode = self._client.data_converter.encode
        return StartWorkflowExecutionRequest(
            namespace=self._client.namespace,
            workflow_id=self.workflow_id,
            workflow_type={"name": "agentJob"},
            task_queue={"name": self._task_queue},
            input={"payloads": await encode([given])},
            memo={"fields": {"inputHash": (await encode([hash]))[0]} if hash else {}},
            identity=self._client.identity,
            request_id=f"agent-jobs/after/{after}" if after else str(uuid.uuid4()),
            workflow_id_reuse_policy=f"WORKFLOW_ID_REUSE_POLICY_{reuse}",
            workflow_id_conflict_policy=f"WORKFLOW_ID_CONFLICT_POLICY_{conflict}",
        )

    async def _send(self, call: Any, request: Any, timeout: timedelta, retry: bool = False) -> bool:
        """False where another run is there, or Temporal did not answer in time: read again."""
        try:
            await call(request, retry=retry, timeout=timeout)
            return True
        except RPCError as error:
            # The SDK's word for a call that took longer than its limit is CANCELLED.
            late = ("CANCELLED", "DEADLINE_EXCEEDED", "ALREADY_EXISTS", "NOT_FOUND")
            if error.status.name in late or "StartDeduped" in str(error):
                return False
            raise

    async def _attach(self, run_ids: list[str]) -> None:
        """Makes Temporal answer late starts after earlier runs with the run that runs now. It never makes a run."""
        for run_id in run_ids[:20]:
            request = await self._request(None, None, "REJECT_DUPLICATE", "USE_EXISTING", run_id)
            request.on_conflict_options.attach_request_id = True
            with contextlib.suppress(RPCError):  # The time limit alone guards the start then.
                await self._send(self._client.workflow_service.start_workflow_execution, request, timedelta(seconds=2))

    async def _made_no_job(self, run: WorkflowExecutionDescription) -> bool:
        """Whether surely no job was made. A run that went on with a job has the hash of another input than its own."""
        if run.status.name != "FAILED" or await self._last_state(run.run_id, must_ask=False) is not None:
            return False
        own = await self._input_of(run)
        return own.get("jobId") is None or await self._hash_of(run) == input_hash(own)

    async def _hash_of(self, run: WorkflowExecutionDescription) -> str:
        return (await run.memo()).get("inputHash") or input_hash(await self._input_of(run))

    async def _input_of(self, run: WorkflowExecutionDescription) -> dict[str, Any]:
        """The start of a chain that continued as new has the caller's own input."""
        first_run_id = run.raw_description.workflow_execution_info.first_run_id or run.run_id
        first = await anext(self._run(first_run_id).fetch_history_events(page_size=1))
        payloads = first.workflow_execution_started_event_attributes.input.payloads
        return (await self._client.data_converter.decode(payloads))[0]

    async def _runs_before(self, last: WorkflowExecutionDescription) -> tuple[list[str], list[str]] | None:
        """The closed runs before the last one, and which its caller had not read; None where another is the last."""
        query = f"WorkflowId = '{self.workflow_id}' AND WorkflowType = 'agentJob'"
        query += " AND ExecutionStatus != 'ContinuedAsNew'"
        runs = [run async for run in self._client.list_workflows(query) if run.run_id != last.run_id]
        if runs and (await self.handle.describe()).run_id != last.run_id:
            return None
        listed = [run.run_id for run in sorted(runs, key=lambda run: run.start_time, reverse=True)]
        attached = last.raw_description.workflow_extended_info.request_id_infos
        known = [id.removeprefix("agent-jobs/after/") for id in attached if id.startswith("agent-jobs/after/")]
        return list(dict.fromkeys([*listed, *known])), [run_id for run_id in listed if run_id not in known]

    async def _last_state(self, run_id: str, must_ask: bool = True) -> dict[str, Any] | None:
        """A run's result or last state; None where there is surely no job. Read once, for it does not change."""
        if run_id in self._read:
            return self._read[run_id]
        try:
            state = await self._run(run_id).result(follow_runs=False)
        except WorkflowFailureError as error:
            state = None
            if JobFailed(error.cause).type not in ("InvalidInput", "CreateRejected"):
                if not must_ask:
                    return {}
                state = await self._ask(run_id)
        return self._read.setdefault(run_id, state)

    async def _ask(self, run_id: str) -> dict[str, Any]:
        try:
            return await self._run(run_id).query("jobState", {"isClosed": True}, rpc_timeout=timedelta(seconds=10))
        except RPCError as error:
            if "closed before WorkflowTaskStarted" in str(error):
                raise FollowUpRefused(f"{self.workflow_id} ended before a worker began it") from error
            raise

    def _run(self, run_id: str) -> Any:
        return self._client.get_workflow_handle(self.workflow_id, run_id=run_id)


def input_hash(job: dict[str, Any]) -> str:
    """What makes two starts the same job: project and prompt, or project and job id. Options do not count."""
    field = "prompt" if job.get("prompt") is not None else "jobId"
    return hashlib.sha256(f"{job['projectId']}\0{field}\0{job[field]}".encode()).hexdigest()


def is_text(value: object) -> bool:
    """Whether a text can be sent at all: the SDK or the server would fail as if it might have arrived."""
    return isinstance(value, str) and 0 < len(value) <= 2**19 and not re.search(r"[\ud800-\udfff]", value)


def update_id(sent: dict[str, str]) -> str:
    """Temporal repeats the first answer to an update id, whatever its text: another text is another update."""
    return f"{sent['id']}:{hashlib.sha256(sent['prompt'].encode()).hexdigest()[:8]}"


def answer_of(sent: dict[str, str], states: list[dict[str, Any]]) -> dict[str, Any]:
    """The state of a used id; `unknown` where only the id was handed on, or the run was terminated meanwhile."""
    hashes = [state.get("promptHashes", {}).get(sent["id"]) for state in states]
    if any(hash and hash != update_id(sent)[-8:] for hash in hashes):
        raise FollowUpRefused(f"The follow-up {sent['id']} was taken before with another prompt: choose another id")
    known = [one["state"] for state in states for one in state["followUps"] if one["id"] == sent["id"]]
    fate = next((state for state in known if state not in ("abandoned", "queued")), "unknown")
    return {"id": sent["id"], "state": fate, "job": states[0]["job"]}


async def unless_ended(attempt: Awaitable[Any]) -> Any:
    """None where the run has ended, or is about to: it surely did not take the follow-up, and the next run does."""
    try:
        return await attempt
    except WorkflowUpdateFailedError as error:
        type, details = getattr(error.cause, "type", None), getattr(error.cause, "details", None)
        if type == "InvalidInput" and details and details[0].get("field") == "job":
            return None
        if type == "AcceptedUpdateCompletedWorkflow":  # Accepted, and then the workflow was ended from outside.
            raise
        raise FollowUpRefused(str(error.cause)) from error
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise FollowUpRefused(str(error)) if error.status == RPCStatusCode.INVALID_ARGUMENT else error


def time_left(read_at: float) -> timedelta:
    return timedelta(seconds=max(5 - (time.monotonic() - read_at), 0.001))
