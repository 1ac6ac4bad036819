package agentjobs;

import agentjobs.Types.AgentJobResult;
import agentjobs.Types.FollowUpAnswer;
import agentjobs.Types.FollowUpInput;
import agentjobs.Types.JobState;
import io.temporal.api.common.v1.Payload;
import io.temporal.api.common.v1.WorkflowExecution;
import io.temporal.api.enums.v1.WorkflowExecutionStatus;
import io.temporal.api.workflowservice.v1.DescribeWorkflowExecutionRequest;
import io.temporal.api.workflowservice.v1.GetWorkflowExecutionHistoryRequest;
import io.temporal.client.UpdateOptions;
import io.temporal.client.WorkflowFailedException;
import io.temporal.client.WorkflowNotFoundException;
import io.temporal.client.WorkflowStub;
import io.temporal.client.WorkflowUpdateException;
import io.temporal.client.WorkflowUpdateStage;
import io.temporal.common.converter.GlobalDataConverter;
import io.temporal.failure.ApplicationFailure;
import io.temporal.failure.CanceledFailure;
import io.temporal.failure.TerminatedFailure;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/** A job by its workflow id. It has as many runs as follow-ups continued it after its end. */
public final class Job {
  private static final long BETWEEN_ROUNDS_MS = 200;

  public final String workflowId;
  /** Whether start made it, or met it. */
  public final boolean isNew;

  final AgentJobs jobs;

  Job(AgentJobs jobs, String workflowId, boolean isNew) {
    this.jobs = jobs;
    this.workflowId = workflowId;
    this.isNew = isNew;
  }

  Job made(boolean isNew) {
    return new Job(jobs, workflowId, isNew);
  }

  /** The job ended without a result. The type is its failure type, Canceled, Terminated or TimedOut. */
  public static final class JobFailed extends RuntimeException {
    public final String type;

    JobFailed(String type, Throwable cause) {
      super(type + ": " + cause.getMessage(), cause);
      this.type = type;
    }

    boolean isSurelyNoJob() {
      return type.equals("InvalidInput") || type.equals("CreateRejected");
    }
  }

  /** The follow-up was surely not sent: it is wrong, or there is no job to send it to. */
  public static final class FollowUpRefused extends RuntimeException {
    FollowUpRefused(String message) {
      super(message);
    }
  }

  /** The follow-up may or may not be sent: say it again with the same id. */
  public static final class FollowUpUnconfirmed extends RuntimeException {
    FollowUpUnconfirmed(String id) {
      super("the follow-up " + id + " is not confirmed: say it again with the same id");
    }
  }

  /** The workflow's stub, for signals and the other messages. */
  public WorkflowStub stub() {
    return jobs.client.newUntypedWorkflowStub(workflowId);
  }

  private WorkflowStub stub(String runId) {
    return jobs.client.newUntypedWorkflowStub(workflowId, Optional.of(runId), Optional.of("agentJob"));
  }

  public JobState state() {
    return stub().query("jobState", JobState.class);
  }

  /** Stops the watch; the upstream can't cancel, so the remote job goes on. */
  public void cancel() {
    stub().cancel();
  }

  /** Waits for the end: a result, whose outcome says which, or JobFailed. */
  public AgentJobResult result() {
    return result(stub());
  }

  private static AgentJobResult result(WorkflowStub stub) {
    try {
      return stub.getResult(AgentJobResult.class);
    } catch (WorkflowFailedException ended) {
      throw failed(ended.getCause());
    }
  }

  private static JobFailed failed(Throwable cause) {
    if (cause instanceof ApplicationFailure failure) return new JobFailed(failure.getType(), cause);
    if (cause instanceof CanceledFailure) return new JobFailed("Canceled", cause);
    return new JobFailed(cause instanceof TerminatedFailure ? "Terminated" : "TimedOut", cause);
  }

  /** Sends a follow-up, and starts an ended job again for it. The same id is sent at most once, ever. */
  public FollowUpAnswer followUp(String prompt, String givenId) throws InterruptedException {
    var id = givenId == null ? UUID.randomUUID().toString() : givenId;
    var followUp = new FollowUpInput(prompt, id, null);
    for (int round = 0; round < AgentJobs.ROUNDS; round++) {
      try {
        return send(followUp);
      } catch (WorkflowNotFoundException ended) {
        // The next run takes it.
      } catch (WorkflowUpdateException refused) {
        if (!isEnding(refused)) throw refusal(refused, id);
      }
      var readAt = System.nanoTime();
      var run = readRun();
      if (run.status() != WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING) {
        var answer = new Continuation(this, run, readAt).followUp(followUp);
        if (answer.isPresent()) return answer.get();
      }
      Thread.sleep(BETWEEN_ROUNDS_MS);
    }
    throw new FollowUpUnconfirmed(id);
  }

  private FollowUpAnswer send(FollowUpInput followUp) {
    var options =
        UpdateOptions.newBuilder(FollowUpAnswer.class)
            .setUpdateName("sendFollowUp")
            .setUpdateId(followUp.id())
            .setWaitForStage(WorkflowUpdateStage.COMPLETED)
            .build();
    return stub().startUpdate(options, followUp).getResult();
  }

  /** The workflow refuses messages right before its end: surely not sent, and the next run takes it. */
  private static boolean isEnding(WorkflowUpdateException refused) {
    if (!(refused.getCause() instanceof ApplicationFailure failure)) return false;
    return failure.getDetails().getSize() > 0 && "job".equals(failure.getDetails().get(0, Map.class).get("field"));
  }

  private static RuntimeException refusal(WorkflowUpdateException refused, String id) {
    var wasEnded =
        refused.getCause() instanceof ApplicationFailure failure
            && failure.getType().equals("AcceptedUpdateCompletedWorkflow");
    return wasEnded ? new FollowUpUnconfirmed(id) : new FollowUpRefused(refused.getCause().getMessage());
  }

  /** A run as Temporal itself describes it. The first of a chain that continued as new has the caller's input. */
  record Run(String id, String firstId, WorkflowExecutionStatus status, String hash) {}

  Run readRun() {
    var request =
        DescribeWorkflowExecutionRequest.newBuilder()
            .setNamespace(namespace())
            .setExecution(WorkflowExecution.newBuilder().setWorkflowId(workflowId))
            .build();
    var service = jobs.client.getWorkflowServiceStubs().blockingStub();
    var info = service.describeWorkflowExecution(request).getWorkflowExecutionInfo();
    var id = info.getExecution().getRunId();
    var firstId = info.getFirstRunId().isEmpty() ? id : info.getFirstRunId();
    var memo = info.getMemo().getFieldsMap().get("inputHash");
    // Without a memo the workflow has not begun yet.
    var hash = memo == null ? AgentJobs.inputHash(startInput(firstId)) : decoded(memo, String.class);
    return new Run(id, firstId, info.getStatus(), hash);
  }

  String namespace() {
    return jobs.client.getOptions().getNamespace();
  }

  private static <T> T decoded(Payload payload, Class<T> type) {
    return GlobalDataConverter.get().fromPayload(payload, type, type);
  }

  /** The caller's own input, from the first event. */
  @SuppressWarnings("unchecked")
  Map<String, Object> startInput(String runId) {
    var request =
        GetWorkflowExecutionHistoryRequest.newBuilder()
            .setNamespace(namespace())
            .setExecution(WorkflowExecution.newBuilder().setWorkflowId(workflowId).setRunId(runId))
            .setMaximumPageSize(1)
            .build();
    var page = jobs.client.getWorkflowServiceStubs().blockingStub().getWorkflowExecutionHistory(request);
    var started = page.getHistory().getEvents(0).getWorkflowExecutionStartedEventAttributes();
    return decoded(started.getInput().getPayloads(0), Map.class);
  }

  /** Whether the run failed in a way after which there is surely no job, so that the key may start again. */
  boolean madeNoJob(Run last) {
    if (last.status() != WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED) return false;
    if (!isSurelyNoJob(last.id())) return false;
    // A run that a follow-up started has the memo of the first run, and so another hash: there is a job.
    var own = startInput(last.firstId());
    return own.get("jobId") == null || AgentJobs.inputHash(own).equals(last.hash());
  }

  boolean isSurelyNoJob(String runId) {
    try {
      result(stub(runId));
      return false;
    } catch (JobFailed failure) {
      return failure.isSurelyNoJob();
    }
  }

  /**
   * The closed runs before the last one; a chain that continued as new counts by its end. Empty where another run is
   * the last one by now.
   */
  Optional<List<String>> earlierRuns(Run last) {
    var query = "WorkflowId = '" + workflowId + "' AND WorkflowType = 'agentJob'";
    var found = jobs.client.listExecutions(query + " AND ExecutionStatus != 'ContinuedAsNew'");
    var others = found.map(run -> run.getExecution().getRunId()).filter(id -> !id.equals(last.id())).toList();
    return others.isEmpty() || readRun().id().equals(last.id()) ? Optional.of(others) : Optional.empty();
  }

  /** What a run's result or last state tells. */
  record FinalState(
      String jobId, Types.JobRecord job, List<Types.FollowUpStatus> followUps, List<String> usedFollowUpIds) {}

  /** Empty where there is surely no job. Throws where a run tells nothing: a forgotten id could be sent twice. */
  Optional<FinalState> finalState(String runId) {
    try {
      var end = result(stub(runId));
      return Optional.of(new FinalState(end.jobId(), end.job(), end.followUps(), end.usedFollowUpIds()));
    } catch (JobFailed failure) {
      if (failure.isSurelyNoJob()) return Optional.empty();
      var state = stub(runId).query("jobState", JobState.class);
      return Optional.of(new FinalState(state.jobId(), state.job(), state.followUps(), state.usedFollowUpIds()));
    }
  }
}
