"""Agent jobs from Python: one key is one job, and a follow-up with an id is sent once. Copy it; it needs temporalio.

The rules are those of docs/contract.md, which our TypeScript client follows too.
"""

import asyncio
import hashlib
import time
import uuid
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
from temporalio.exceptions import ApplicationError, CancelledError, TerminatedError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from agent_job_types import AgentJobResult, AttachJobInput, CreateJobInput, FollowUpAnswer, JobState

SURELY_NO_JOB = ("InvalidInput", "CreateRejected")
# Each further round means that another caller continued from the same ended run, or that a start came too late.
ROUNDS = 5
# From reading a closed run to the start that continues from it.
START_WITHIN_S = 5.0
MAX_ATTACHED_REQUEST_IDS = 20


class KeyConflict(Exception):
    """The key names a job with another input."""


class JobFailed(Exception):
    """The job ended without a result. `type` is its failure type, `Canceled`, `Terminated` or `TimedOut`."""

    def __init__(self, type: str, message: str, details: Any = None) -> None:
        super().__init__(f"{type}: {message}")
        self.type = type
        self.details = details


class FollowUpRefused(Exception):
    """The follow-up was surely not sent: it is wrong, or there is no job to send it to."""


class FollowUpUnconfirmed(Exception):
    """The follow-up may or may not be sent: say it again with the same id."""


def input_hash(job: CreateJobInput | AttachJobInput) -> str:
    """What makes two starts the same job: project and prompt, or project and job id. Options do not count."""
    field = "prompt" if job.get("prompt") is not None else "jobId"
    return hashlib.sha256(f"{job['projectId']}\0{field}\0{job[field]}".encode()).hexdigest()


class AgentJobs:
    def __init__(self, client: Client, task_queue: str = "agent-jobs") -> None:
        self.client = client
        self.task_queue = task_queue

    def job(self, project_id: str, key: str) -> "Job":
        return Job(self, f"agent-job/{quote(project_id, safe='')}/{quote(key, safe='')}")

    async def start(self, key: str, given: CreateJobInput | AttachJobInput) -> "Job":
        """Starts the job, or joins the one that key and input already name; `is_new` says which. Raises KeyConflict."""
        job = self.job(given["projectId"], key)
        wanted = input_hash(given)
        for _ in range(ROUNDS):
            if await self._start_new(job.workflow_id, given, wanted):
                return job.made(True)
            read_at = time.monotonic()
            run = await job.describe()
            if not await job.made_no_job(run):
                if await job.hash_of(run) != wanted:
                    raise KeyConflict(f"The key {key} names a job with another prompt")
                return job.made(False)
            if await job.start_again(run, given, wanted, read_at):
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
        follow_up = {"prompt": prompt, "id": id or str(uuid.uuid4())}
        for _ in range(ROUNDS):
            try:
                return await self.handle.execute_update("sendFollowUp", follow_up, id=follow_up["id"])
            except WorkflowUpdateFailedError as error:
                if not is_ending(error):
                    raise refusal(error) from error
            except RPCError as error:
                if error.status != RPCStatusCode.NOT_FOUND:
                    raise
            answer = await self._follow_up_after_end(follow_up)
            if answer is not None:
                return answer
            await asyncio.sleep(0.2)
        raise FollowUpUnconfirmed(follow_up["id"])

    async def describe(self) -> WorkflowExecutionDescription:
        return await self.handle.describe()

    def made(self, is_new: bool) -> "Job":
        self.is_new = is_new
        return self

    async def hash_of(self, run: WorkflowExecutionDescription) -> str | None:
        """What the job was started for: from the memo, or from the start where the workflow has not begun."""
        memo = await run.memo()
        return memo.get("inputHash") or input_hash(await self._start_input(first_run_id(run)))

    async def made_no_job(self, run: WorkflowExecutionDescription) -> bool:
        """Whether the run failed in a way after which there is surely no job, so that the key may start again."""
        if run.status is None or run.status.name != "FAILED" or not await self._is_surely_no_job(run.run_id):
            return False
        # A run that a follow-up started has the memo of the first run, and so another hash: there is a job.
        own = await self._start_input(first_run_id(run))
        return own.get("jobId") is None or await self.hash_of(run) == input_hash(own)

    async def start_again(
        self, run: WorkflowExecutionDescription, given: CreateJobInput | AttachJobInput, wanted: str, read_at: float
    ) -> bool:
        """Continues from a run that made no job. False where another caller did first, with another input."""
        earlier = await self._earlier_runs(run)
        if earlier is None:
            return False
        for run_id in earlier:
            if not await self._is_surely_no_job(run_id):
                raise KeyConflict(f"The earlier run {run_id} of {self.workflow_id} may have made a job")
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

    async def _follow_up_after_end(self, follow_up: dict[str, str]) -> FollowUpAnswer | None:
        """Starts the ended workflow id again, attached to its job, and sends the follow-up there in one request."""
        read_at = time.monotonic()
        run = await self.describe()
        if run.close_time is None:
            return None
        final = await self._final_state(run.run_id)
        if final is None or final["jobId"] is None:
            raise FollowUpRefused(f"{self.workflow_id} ended without a job")
        earlier = await self._earlier_runs(run)
        if earlier is None:
            return None
        states = [final, *[state for run_id in earlier if (state := await self._final_state(run_id))]]
        used = list(dict.fromkeys(id for state in states for id in state["usedFollowUpIds"]))
        if follow_up["id"] in used:
            return fate_of(follow_up["id"], states)
        first = await self._start_input(first_run_id(run))
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
                meta=Meta(update_id=follow_up["id"], identity=start.identity),
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
        failure = response.responses[1].update_workflow.outcome.failure.message
        if failure:
            raise FollowUpRefused(failure)
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
        return [run.run_id for run in sorted(runs, key=lambda run: run.start_time, reverse=True)]

    async def _is_surely_no_job(self, run_id: str) -> bool:
        end = await self._end_of(run_id)
        return isinstance(end, JobFailed) and end.type in SURELY_NO_JOB

    async def _end_of(self, run_id: str) -> AgentJobResult | JobFailed:
        try:
            return await self._client.get_workflow_handle(self.workflow_id, run_id=run_id).result(follow_runs=False)
        except WorkflowFailureError as error:
            return job_failed(error)

    async def _final_state(self, run_id: str) -> Any:
        """A closed run's result or last state; None where there is surely no job. Raises where neither can be read."""
        end = await self._end_of(run_id)
        if not isinstance(end, JobFailed):
            return end
        if end.type in SURELY_NO_JOB:
            return None
        handle = self._client.get_workflow_handle(self.workflow_id, run_id=run_id)
        return await handle.query("jobState", rpc_timeout=timedelta(seconds=10))

    async def _start_input(self, run_id: str) -> Any:
        handle = self._client.get_workflow_handle(self.workflow_id, run_id=run_id)
        async for event in handle.fetch_history_events(page_size=1):
            payloads = event.workflow_execution_started_event_attributes.input.payloads
            return (await self._client.data_converter.decode(payloads))[0]

    async def _payloads(self, value: Any) -> Payloads:
        return Payloads(payloads=await self._client.data_converter.encode([value]))


def first_run_id(run: WorkflowExecutionDescription) -> str:
    """The start of a chain that continued as new has the caller's own input."""
    return run.raw_description.workflow_execution_info.first_run_id or run.run_id


def fate_of(id: str, states: list[Any]) -> FollowUpAnswer:
    """The state of a used id; `unknown` where only the id was handed on, or the run was terminated meanwhile."""
    known = [follow_up for state in states for follow_up in state["followUps"] if follow_up["id"] == id]
    fate = next((one["state"] for one in known if one["state"] not in ("abandoned", "queued")), "unknown")
    return {"id": id, "state": fate, "job": states[0]["job"]}


def job_failed(error: WorkflowFailureError) -> JobFailed:
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return JobFailed(cause.type or "Failed", cause.message, cause.details[0] if cause.details else None)
    ends = {CancelledError: "Canceled", TerminatedError: "Terminated"}
    return JobFailed(ends.get(type(cause), "TimedOut"), str(cause))


def is_ending(error: WorkflowUpdateFailedError) -> bool:
    """The workflow refuses messages right before its end: surely not sent, and the next run takes it."""
    details = error.cause.details if isinstance(error.cause, ApplicationError) else ()
    return bool(details) and isinstance(details[0], dict) and details[0].get("field") == "job"


def refusal(error: WorkflowUpdateFailedError) -> Exception:
    # Accepted, and then the workflow was ended from outside.
    if isinstance(error.cause, ApplicationError) and error.cause.type == "AcceptedUpdateCompletedWorkflow":
        return FollowUpUnconfirmed(str(error.cause))
    return FollowUpRefused(str(error.cause))


def is_late(error: RPCError) -> bool:
    """Whether another run has followed the closed one, or Temporal did not answer in time: read again."""
    late = (RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.ALREADY_EXISTS, RPCStatusCode.NOT_FOUND)
    return error.status in late or "StartDeduped" in str(error)


def time_left(read_at: float) -> timedelta:
    return timedelta(seconds=max(START_WITHIN_S - (time.monotonic() - read_at), 0.001))
