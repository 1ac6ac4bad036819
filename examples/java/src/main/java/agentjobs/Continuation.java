package agentjobs;

import agentjobs.Types.FollowUpAnswer;
import agentjobs.Types.FollowUpInput;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.temporal.api.common.v1.Memo;
import io.temporal.api.common.v1.Payloads;
import io.temporal.api.common.v1.WorkflowExecution;
import io.temporal.api.common.v1.WorkflowType;
import io.temporal.api.enums.v1.UpdateWorkflowExecutionLifecycleStage;
import io.temporal.api.enums.v1.WorkflowIdConflictPolicy;
import io.temporal.api.enums.v1.WorkflowIdReusePolicy;
import io.temporal.api.taskqueue.v1.TaskQueue;
import io.temporal.api.update.v1.Input;
import io.temporal.api.update.v1.Meta;
import io.temporal.api.update.v1.Request;
import io.temporal.api.update.v1.WaitPolicy;
import io.temporal.api.workflow.v1.OnConflictOptions;
import io.temporal.api.workflowservice.v1.ExecuteMultiOperationRequest;
import io.temporal.api.workflowservice.v1.ExecuteMultiOperationRequest.Operation;
import io.temporal.api.workflowservice.v1.StartWorkflowExecutionRequest;
import io.temporal.api.workflowservice.v1.UpdateWorkflowExecutionRequest;
import io.temporal.api.workflowservice.v1.WorkflowServiceGrpc.WorkflowServiceBlockingStub;
import io.temporal.client.WorkflowUpdateException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** A start that continues from a closed run: docs/keys.md has the rules. */
final class Continuation {
  /** From reading the closed run to the start. */
  private static final long START_WITHIN_NS = TimeUnit.SECONDS.toNanos(5);

  /** With less time left than this, the next round starts: it has read all of this by then. */
  private static final long LEAST_LEFT_NS = TimeUnit.SECONDS.toNanos(2);

  private static final int MAX_ATTACHED_REQUEST_IDS = 20;

  private final Job job;
  private final Job.Run last;
  private final ClosedRuns runs;
  private final long readAt;

  Continuation(Job job, Job.Run last, ClosedRuns runs, long readAt) {
    this.job = job;
    this.last = last;
    this.runs = runs;
    this.readAt = readAt;
  }

  /** Starts a key again whose last run made no job. False where another caller did first, with another input. */
  boolean startAgain(Object input, String wanted) {
    var found = job.earlierRuns(last);
    if (found.isEmpty()) return false;
    var earlier = found.get();
    if (!unread(earlier).parallelStream().allMatch(runs::isSurelyNoJob)) {
      throw new AgentJobs.KeyConflict("an earlier run of " + job.workflowId + " may have made a job");
    }
    if (leftNs() < LEAST_LEFT_NS) return false;
    var policy = WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY;
    try {
      limited().startWorkflowExecution(requestAfter(last.id(), policy, input, wanted).build());
    } catch (StatusRuntimeException error) {
      if (isLate(error)) return false;
      throw error;
    }
    attachRequestIds(earlier);
    return job.readRun().hash().equals(wanted);
  }

  /** Starts the ended workflow id again, attached to its job, and sends the follow-up there. Empty: read again. */
  Optional<FollowUpAnswer> followUp(FollowUpInput followUp) {
    var found = job.earlierRuns(last);
    if (found.isEmpty()) return Optional.empty();
    var earlier = found.get();
    var end = runs.finalState(last.id()).filter(state -> state.jobId() != null);
    if (end.isEmpty()) throw new Job.FollowUpRefused(job.workflowId + " ended without a job");
    var others = unread(earlier).parallelStream().flatMap(runId -> runs.finalState(runId).stream());
    var states = Stream.concat(end.stream(), others.filter(state -> isOfJob(state, end.get().jobId()))).toList();
    var used = states.stream().flatMap(state -> state.usedFollowUpIds().stream()).distinct().toList();
    if (used.contains(followUp.id())) return Optional.of(fateOf(followUp, states));
    if (leftNs() < LEAST_LEFT_NS) return Optional.empty();

    var input = new HashMap<String, Object>(job.startInput(last.firstId()));
    input.put("prompt", null);
    input.put("jobId", states.get(0).jobId());
    input.put("usedFollowUpIds", used);
    // This policy is safe here alone: a run with jobId creates nothing.
    var policy = WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE;
    try {
      return Optional.of(startWithUpdate(requestAfter(last.id(), policy, input, last.hash()).build(), followUp));
    } catch (StatusRuntimeException error) {
      if (isLate(error)) return Optional.empty();
      throw error;
    } finally {
      attachRequestIds(earlier);
    }
  }

  private static boolean isOfJob(ClosedRuns.FinalState state, String jobId) {
    return state.jobId() == null || state.jobId().equals(jobId);
  }

  /** Those that the caller who started the last run had not read. */
  private List<String> unread(List<String> earlier) {
    return earlier.stream().filter(runId -> !last.known().contains(runId)).toList();
  }

  /** The state of a used id; unknown where only the id was handed on, or the run was terminated meanwhile. */
  private FollowUpAnswer fateOf(FollowUpInput followUp, List<ClosedRuns.FinalState> states) {
    var id = followUp.id();
    var hash = AgentJobs.promptHash(followUp.prompt());
    if (states.stream().anyMatch(state -> !hash.equals(state.promptHashes().getOrDefault(id, hash)))) {
      throw new Job.FollowUpRefused("the id " + id + " was taken before with another prompt: choose another one");
    }
    var known = states.stream().flatMap(state -> state.followUps().stream()).filter(one -> one.id().equals(id));
    var fates = known.map(Types.FollowUpStatus::state);
    var fate = fates.filter(state -> !state.equals("abandoned") && !state.equals("queued")).findFirst();
    return new FollowUpAnswer(id, fate.orElse("unknown"), states.get(0).job());
  }

  private FollowUpAnswer startWithUpdate(StartWorkflowExecutionRequest start, FollowUpInput followUp) {
    var accepted = UpdateWorkflowExecutionLifecycleStage.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED;
    var input = Input.newBuilder().setName("sendFollowUp").setArgs(payloads(followUp));
    var workflow = WorkflowExecution.newBuilder().setWorkflowId(job.workflowId).build();
    var update =
        UpdateWorkflowExecutionRequest.newBuilder()
            .setNamespace(job.namespace())
            .setWorkflowExecution(workflow)
            .setWaitPolicy(WaitPolicy.newBuilder().setLifecycleStage(accepted))
            .setRequest(
                Request.newBuilder().setMeta(Meta.newBuilder().setUpdateId(Job.updateId(followUp))).setInput(input));
    var request =
        ExecuteMultiOperationRequest.newBuilder()
            .setNamespace(job.namespace())
            .addOperations(Operation.newBuilder().setStartWorkflow(start))
            .addOperations(Operation.newBuilder().setUpdateWorkflow(update))
            .build();
    var response = limited().executeMultiOperation(request);
    var outcome = response.getResponses(1).getUpdateWorkflow().getOutcome();
    if (outcome.hasFailure()) {
      var cause = job.converter().failureToException(outcome.getFailure());
      throw new WorkflowUpdateException(workflow, followUp.id(), "sendFollowUp", cause);
    }
    var runId = response.getResponses(0).getStartWorkflow().getRunId();
    var stub = job.jobs.client.newUntypedWorkflowStub(job.workflowId, Optional.of(runId), Optional.empty());
    return stub.getUpdateHandle(followUp.id(), FollowUpAnswer.class).getResult();
  }

  /** A start that Temporal makes once, however many callers continue from the same closed run. */
  private StartWorkflowExecutionRequest.Builder requestAfter(
      String runId, WorkflowIdReusePolicy policy, Object input, String hash) {
    var memo = job.converter().toPayload(hash).orElseThrow();
    return StartWorkflowExecutionRequest.newBuilder()
        .setNamespace(job.namespace())
        .setWorkflowId(job.workflowId)
        .setWorkflowType(WorkflowType.newBuilder().setName("agentJob"))
        .setTaskQueue(TaskQueue.newBuilder().setName(job.jobs.taskQueue))
        .setInput(payloads(input))
        .setMemo(Memo.newBuilder().putFields("inputHash", memo))
        .setRequestId(Job.AFTER + runId)
        .setWorkflowIdReusePolicy(policy)
        .setWorkflowIdConflictPolicy(WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING);
  }

  /** Makes Temporal answer late starts after earlier runs with the run that runs now. It never makes a run. */
  private void attachRequestIds(List<String> runIds) {
    var policy = WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE;
    var attach = OnConflictOptions.newBuilder().setAttachRequestId(true);
    var service = service().withDeadlineAfter(2, TimeUnit.SECONDS);
    try {
      for (var runId : runIds.stream().limit(MAX_ATTACHED_REQUEST_IDS).toList()) {
        var request = requestAfter(runId, policy, Map.of(), last.hash()).setOnConflictOptions(attach);
        service.startWorkflowExecution(request.build());
      }
    } catch (StatusRuntimeException error) {
      // The time limit alone guards the start then.
    }
  }

  private WorkflowServiceBlockingStub service() {
    return job.jobs.client.getWorkflowServiceStubs().blockingStub();
  }

  private WorkflowServiceBlockingStub limited() {
    return service().withDeadlineAfter(Math.max(leftNs(), 1), TimeUnit.NANOSECONDS);
  }

  private long leftNs() {
    return START_WITHIN_NS - (System.nanoTime() - readAt);
  }

  /** Whether another run has followed the closed one, or Temporal did not answer in time: read again. */
  private static boolean isLate(StatusRuntimeException error) {
    var code = error.getStatus().getCode();
    var isLate = code == Status.Code.DEADLINE_EXCEEDED || code == Status.Code.ALREADY_EXISTS;
    return isLate || code == Status.Code.NOT_FOUND || String.valueOf(error.getMessage()).contains("StartDeduped");
  }

  private Payloads payloads(Object value) {
    return job.converter().toPayloads(value).orElseThrow();
  }
}
