"""Agent jobs from Python: one key is one job, and a follow-up with an id is sent once. Copy the folder.

It needs temporalio. The rules are those of docs/contract.md, which our TypeScript client follows too.
"""

import asyncio
import hashlib
import re
import time
import uuid
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from temporalio.api.common.v1 import Memo, Payloads, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import UpdateWorkflowExecutionLifecycleStage, WorkflowIdConflictPolicy
from temporalio.api.enums.v1 import WorkflowIdReusePolicy as Reuse
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.update.v1 import Input, Meta, Request, WaitPolicy
from temporalio.api.workflow.v1 import OnConflictOptions
from temporalio.api.workflowservice.v1 import (
    ExecuteMultiOperationRequest,
    StartWorkflowExecutionRequest,
    UpdateWorkflowExecutionRequest,
)
from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowUpdateFailedError,
)
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from agent_job_types import AgentJobResult, AttachJobInput, CreateJobInput, FollowUpAnswer, JobState, Polling
from closed_runs import ClosedRuns, JobFailed, input_of, is_surely_no_job, job_failed, known_to, unknown_to

# Each further round means that another caller continued from the same ended run, or that a start came too late.
ROUNDS = 5
# From reading a closed run to the start that continues from it.
START_WITHIN_S = 5.0
# With less time left than this, the next round starts: it has read all of this by then.
LEAST_LEFT = timedelta(seconds=2)
MAX_ATTACHED_REQUEST_IDS = 20
# What every Temporal server keeps.
MAX_WORKFLOW_ID_CHARACTERS = 255
FIELDS = {
    *CreateJobInput.__annotations__,
    *AttachJobInput.__annotations__,
    *(f"polling.{name}" for name in Polling.__annotations__),
}


class KeyConflict(Exception):
    """The key names a job with another input."""


class FollowUpRefused(Exception):
    """The follow-up was surely not sent: it is wrong, or there is no job to send it to."""


class FollowUpUnconfirmed(Exception):
    """The follow-up may or may not be sent: say it again with the same `id`."""

    def __init__(self, id: str) -> None:
        super().__init__(f"The follow-up {id} is not confirmed: say it again with the same id")
        self.id = id


def input_hash(job: CreateJobInput | AttachJobInput) -> str:
    """What makes two starts the same job: project and prompt, or project and job id. Options do not count."""
    field = "prompt" if job.get("prompt") is not None else "jobId"
    return hashlib.sha256(f"{job['projectId']}\0{field}\0{job[field]}".encode()).hexdigest()


def check_input(given: CreateJobInput | AttachJobInput) -> None:
    """The workflow ignores a field that it does not know: a misspelt one would leave the default."""
    if not given.get("projectId"):
        raise ValueError("projectId must be given")
    if (given.get("prompt") is None) == (given.get("jobId") is None):
        raise ValueError("prompt or jobId must be given, exactly one of the two")
    for name in [*given, *(f"polling.{name}" for name in given.get("polling") or {})]:
        if name not in FIELDS:
            raise ValueError(f"{name} is no field that agent_job_types.py knows")


def check_key(key: str, workflow_id: str) -> None:
    """An empty one, such as a variable that is not set, would be one job for all."""
    is_text = key != "" and not re.search(r"[\x00-\x1f\x7f-\x9f]", key)
    if not is_text or len(workflow_id) > MAX_WORKFLOW_ID_CHARACTERS:
        raise ValueError(
            "key must be well-formed text without control characters, at least one character, "
            f"and make a workflow id of at most {MAX_WORKFLOW_ID_CHARACTERS} characters"
        )


def prompt_hash(follow_up: dict[str, str]) -> str:
    """Tells whether an id that is said again names the same prompt, as `promptHashes` of state and result has it."""
    return hashlib.sha256(follow_up["prompt"].encode()).hexdigest()[:8]


def update_id(follow_up: dict[str, str]) -> str:
    """Temporal repeats the first answer to an update id, whatever its text: another text is another update."""
    return f"{follow_up['id']}:{prompt_hash(follow_up)}"


class AgentJobs:
    def __init__(self, client: Client, task_queue: str = "agent-jobs") -> None:
        self.client = client
        self.task_queue = task_queue

    def job(self, project_id: str, key: str) -> "Job":
        return Job(self, f"agent-job/{quote(project_id, safe='')}/{quote(key, safe='')}")

    async def start(self, key: str, given: CreateJobInput | AttachJobInput) -> "Job":
        """Starts the job, or joins the one that key and input already name; `is_new` says which.

        Raises KeyConflict, and ValueError where nothing was sent, because key or input is wrong.
        """
        check_input(given)
        key = key or ""
        job = self.job(given["projectId"], key)
        check_key(key, job.workflow_id)
        wanted = input_hash(given)
        runs = ClosedRuns(self.client, job.workflow_id)
        for _ in range(ROUNDS):
            if await self._start_new(job.workflow_id, given, wanted):
                return job.made(True)
            read_at = time.monotonic()
            run = await job.describe()
            if not await job.made_no_job(run, runs):
                if await job.hash_of(run) != wanted:
                    raise KeyConflict(f"The key {key} names a job with another prompt")
                return job.made(False)
            if await job.start_again(run, runs, given, wanted, read_at):
                return job.made(True)
        raise KeyConflict(f"The key {key} is started again and again by others")

    async def _start_new(self, workflow_id: str, given: Any, wanted: str) -> bool:
        try:
            await self.client.start_workflow(
                "agentJob",
                given,
                id=workflow_id,
                task_queue=self.task_queue,
                memo={"inputHash": wanted},
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            )
            return True
        except WorkflowAlreadyStartedError:
            return False


class Job:
    """A job by its workflow id. It has as many runs as follow-ups continued it after its end."""

    def __init__(self, jobs: AgentJobs, workflow_id: str) -> None:
        self.workflow_id = workflow_id
        self.is_new = False
        self._jobs = jobs
        self._client = jobs.client

    @property
    def handle(self) -> WorkflowHandle:
        return self._client.get_workflow_handle(self.workflow_id)

    async def state(self) -> JobState:
        return await self.handle.query("jobState")

    async def cancel(self) -> None:
        await self.handle.cancel()

    async def result(self) -> AgentJobResult:
        """Waits for the end: a result, whose `outcome` says which, or JobFailed."""
        try:
            return await self.handle.result()
        except WorkflowFailureError as error:
            raise job_failed(error) from error

    async def follow_up(self, prompt: str, id: str | None = None) -> FollowUpAnswer:
        """Sends a follow-up, and starts an ended job again for it. The same id is sent at most once, ever."""
        if id == "":
            raise FollowUpRefused("The id is empty: leave it out, or give one")
        follow_up = {"prompt": prompt, "id": id or str(uuid.uuid4())}
        runs = ClosedRuns(self._client, self.workflow_id)
        try:
            for _ in range(ROUNDS):
                answer = await unless_ended(self._send(follow_up))
                answer = answer or await unless_ended(self._follow_up_after_end(follow_up, runs))
                if answer is not None:
                    return answer
                await asyncio.sleep(0.2)
        except FollowUpRefused:
            raise
        except Exception as error:  # Whatever it is, an attempt may have been taken.
            raise FollowUpUnconfirmed(follow_up["id"]) from error
        raise FollowUpUnconfirmed(follow_up["id"])

    async def _send(self, follow_up: dict[str, str]) -> FollowUpAnswer:
        return await self.handle.execute_update("sendFollowUp", follow_up, id=update_id(follow_up))

    async def describe(self) -> WorkflowExecutionDescription:
        return await self.handle.describe()

    def made(self, is_new: bool) -> "Job":
        self.is_new = is_new
        return self

    async def hash_of(self, run: WorkflowExecutionDescription) -> str | None:
        """What the job was started for: from the memo, or from the start where the workflow has not begun."""
        memo = await run.memo()
        return memo.get("inputHash") or input_hash(await self._start_input(run))

    async def made_no_job(self, run: WorkflowExecutionDescription, runs: ClosedRuns) -> bool:
        """Whether the run failed in a way after which there is surely no job, so that the key may start again."""
        if run.status is None or run.status.name != "FAILED" or not is_surely_no_job(await runs.end_of(run.run_id)):
            return False
        # A run that a follow-up started has the memo of the first run, and so another hash: there is a job.
        own = await self._start_input(run)
        return own.get("jobId") is None or await self.hash_of(run) == input_hash(own)

    async def start_again(
        self, run: WorkflowExecutionDescription, runs: ClosedRuns, given: Any, wanted: str, read_at: float
    ) -> bool:
        """Continues from a run that made no job. False where another caller did first, with another input."""
        earlier = await self._earlier_runs(run)
        if earlier is None:
            return False
        if not all(is_surely_no_job(end) for end in await runs.read(runs.end_of, unknown_to(run, earlier))):
            raise KeyConflict(f"An earlier run of {self.workflow_id} may have made a job")
        if time_left(read_at) < LEAST_LEFT:
            return False
        policy = Reuse.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY
        request = await self._request_after(run.run_id, policy, given, wanted)
        try:
            await self._client.workflow_service.start_workflow_execution(request, timeout=time_left(read_at))
        except RPCError as error:
            if not is_late(error):
                raise
            return False
        await self._attach_request_ids(earlier)
        return await self.hash_of(await self.describe()) == wanted

    async def _follow_up_after_end(self, follow_up: dict[str, str], runs: ClosedRuns) -> FollowUpAnswer | None:
        """Starts the ended workflow id again, attached to its job, and sends the follow-up there in one request."""
        read_at = time.monotonic()
        try:
            run = await self.describe()
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            raise FollowUpRefused(f"There is no {self.workflow_id}") from error
        if run.close_time is None:
            return None
        final = await runs.final_state(run.run_id)
        if final is None or final["jobId"] is None:
            raise FollowUpRefused(f"{self.workflow_id} ended without a job")
        earlier = await self._earlier_runs(run)
        if earlier is None:
            return None
        read = await runs.read(runs.final_state, unknown_to(run, earlier))
        states = [final, *[state for state in read if state and state["jobId"] in (None, final["jobId"])]]
        used = list(dict.fromkeys(id for state in states for id in state["usedFollowUpIds"]))
        if follow_up["id"] in used:
            return fate_of(follow_up, states)
        first = await self._start_input(run)
        attach = {**first, "prompt": None, "jobId": final["jobId"], "usedFollowUpIds": used}
        policy = Reuse.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE  # Safe here alone: a run with jobId creates nothing.
        start = await self._request_after(run.run_id, policy, attach, await self.hash_of(run))
        try:
            return await self._start_with_update(start, follow_up, read_at)
        except RPCError as error:
            if not is_late(error):
                raise
            return None
        finally:
            await self._attach_request_ids(earlier)

    async def _start_with_update(
        self, start: StartWorkflowExecutionRequest, follow_up: dict[str, str], read_at: float
    ) -> FollowUpAnswer:
        accepted = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED
        update = UpdateWorkflowExecutionRequest(
            namespace=start.namespace,
            workflow_execution=WorkflowExecution(workflow_id=self.workflow_id),
            wait_policy=WaitPolicy(lifecycle_stage=accepted),
            request=Request(
                meta=Meta(update_id=update_id(follow_up), identity=start.identity),
                input=Input(name="sendFollowUp", args=await self._payloads(follow_up)),
            ),
        )
        operation = ExecuteMultiOperationRequest.Operation
        response = await self._client.workflow_service.execute_multi_operation(
            ExecuteMultiOperationRequest(
                namespace=start.namespace,
                operations=[operation(start_workflow=start), operation(update_workflow=update)],
            ),
            timeout=time_left(read_at),
        )
        outcome = response.responses[1].update_workflow.outcome
        if outcome.HasField("failure"):
            raise WorkflowUpdateFailedError(await self._client.data_converter.decode_failure(outcome.failure))
        run_id = response.responses[0].start_workflow.run_id
        return await self.handle.get_update_handle(follow_up["id"], workflow_run_id=run_id).result()

    async def _request_after(
        self, run_id: str, policy: Any, given: Any, hash: str | None
    ) -> StartWorkflowExecutionRequest:
        """A start that Temporal makes once, however many callers continue from the same closed run."""
        memo = {} if hash is None else {"inputHash": (await self._client.data_converter.encode([hash]))[0]}
        return StartWorkflowExecutionRequest(
            namespace=self._client.namespace,
            workflow_id=self.workflow_id,
            workflow_type=WorkflowType(name="agentJob"),
            task_queue=TaskQueue(name=self._jobs.task_queue),
            input=await self._payloads(given),
            memo=Memo(fields=memo),
            identity=self._client.identity,
            request_id=f"agent-jobs/after/{run_id}",
            workflow_id_reuse_policy=policy,
            workflow_id_conflict_policy=WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
        )

    async def _attach_request_ids(self, run_ids: list[str]) -> None:
        """Makes Temporal answer late starts after earlier runs with the run that runs now. It never makes a run."""
        for run_id in run_ids[:MAX_ATTACHED_REQUEST_IDS]:
            request = await self._request_after(run_id, Reuse.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, None, None)
            request.on_conflict_options.CopyFrom(OnConflictOptions(attach_request_id=True))
            try:
                await self._client.workflow_service.start_workflow_execution(request, timeout=timedelta(seconds=2))
            except RPCError:
                return  # The time limit alone guards the start then.

    async def _earlier_runs(self, last: WorkflowExecutionDescription) -> list[str] | None:
        """The closed runs before the last one, newest first; None where another is the last one by now.

        A chain that continued as new counts by its end.
        """
        query = f"WorkflowId = '{self.workflow_id}' AND WorkflowType = 'agentJob'"
        query += " AND ExecutionStatus != 'ContinuedAsNew'"
        runs = [run async for run in self._client.list_workflows(query) if run.run_id != last.run_id]
        if runs and (await self.describe()).run_id != last.run_id:
            return None
        listed = [run.run_id for run in sorted(runs, key=lambda run: run.start_time, reverse=True)]
        return list(dict.fromkeys([*listed, *known_to(last)]))

    async def _start_input(self, run: WorkflowExecutionDescription) -> Any:
        """The start of a chain that continued as new has the caller's own input."""
        first_run_id = run.raw_description.workflow_execution_info.first_run_id or run.run_id
        handle = self._client.get_workflow_handle(self.workflow_id, run_id=first_run_id)
        async for event in handle.fetch_history_events(page_size=1):
            return await input_of(self._client, event)

    async def _payloads(self, value: Any) -> Payloads:
        return Payloads(payloads=await self._client.data_converter.encode([value]))


def fate_of(follow_up: dict[str, str], states: list[Any]) -> FollowUpAnswer:
    """The state of a used id; `unknown` where only the id was handed on, or the run was terminated meanwhile."""
    id = follow_up["id"]
    if any(state.get("promptHashes", {}).get(id, prompt_hash(follow_up)) != prompt_hash(follow_up) for state in states):
        raise FollowUpRefused(f"The follow-up {id} was taken before with another prompt: choose another id")
    known = [one for state in states for one in state["followUps"] if one["id"] == id]
    fate = next((one["state"] for one in known if one["state"] not in ("abandoned", "queued")), "unknown")
    return {"id": id, "state": fate, "job": states[0]["job"]}


async def unless_ended(attempt: Awaitable[FollowUpAnswer | None]) -> FollowUpAnswer | None:
    """None where the run has ended, or is about to: it surely did not take the follow-up, and the next run does."""
    try:
        return await attempt
    except WorkflowUpdateFailedError as error:
        if is_ending(error.cause):
            return None
        # Accepted, and then the workflow was ended from outside.
        if isinstance(error.cause, ApplicationError) and error.cause.type == "AcceptedUpdateCompletedWorkflow":
            raise
        raise FollowUpRefused(str(error.cause)) from error
    except RPCError as error:
        if error.status == RPCStatusCode.INVALID_ARGUMENT:
            raise FollowUpRefused(str(error)) from error
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return None


def is_ending(cause: BaseException | None) -> bool:
    """The workflow refuses messages right before its end."""
    details = cause.details if isinstance(cause, ApplicationError) else ()
    return bool(details) and isinstance(details[0], dict) and details[0].get("field") == "job"


# The SDK's own word for a call that took longer than its limit is CANCELLED.
LATE = (
    RPCStatusCode.CANCELLED,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.ALREADY_EXISTS,
    RPCStatusCode.NOT_FOUND,
)


def is_late(error: RPCError) -> bool:
    """Whether another run has followed the closed one, or Temporal did not answer in time: read again."""
    return error.status in LATE or "StartDeduped" in str(error)


def time_left(read_at: float) -> timedelta:
    return timedelta(seconds=max(START_WITHIN_S - (time.monotonic() - read_at), 0.001))
