package agentjobs;

import agentjobs.Types.AgentJobResult;
import agentjobs.Types.FollowUpAnswer;
import agentjobs.Types.FollowUpInput;
import agentjobs.Types.JobState;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.temporal.api.common.v1.Payload;
import io.temporal.api.common.v1.WorkflowExecution;
import io.temporal.api.enums.v1.WorkflowExecutionStatus;
import io.temporal.api.history.v1.HistoryEvent;
import io.temporal.api.workflowservice.v1.DescribeWorkflowExecutionRequest;
import io.temporal.api.workflowservice.v1.GetWorkflowExecutionHistoryRequest;
import io.temporal.api.workflowservice.v1.GetWorkflowExecutionHistoryResponse;
import io.temporal.client.UpdateOptions;
import io.temporal.client.WorkflowFailedException;
import io.temporal.client.WorkflowNotFoundException;
import io.temporal.client.WorkflowStub;
import io.temporal.client.WorkflowUpdateException;
import io.temporal.client.WorkflowUpdateStage;
import io.temporal.common.converter.DataConverter;
import io.temporal.failure.ApplicationFailure;
import io.temporal.failure.CanceledFailure;
import io.temporal.failure.TerminatedFailure;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Supplier;
import java.util.stream.Stream;

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
    public final String id;

    FollowUpUnconfirmed(String id, Throwable cause) {
      super("the follow-up " + id + " is not confirmed: say it again with the same id", cause);
      this.id = id;
    }
  }

  /** The workflow's stub, for signals and the other messages. */
  public WorkflowStub stub() {
    return jobs.client.newUntypedWorkflowStub(workflowId);
  }

  WorkflowStub stub(String runId) {
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

  static AgentJobResult result(WorkflowStub stub) {
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
    if ("".equals(givenId)) throw new FollowUpRefused("the id is empty: give null, or one that names the follow-up");
    var followUp = new FollowUpInput(prompt, givenId == null ? UUID.randomUUID().toString() : givenId, null);
    var runs = new ClosedRuns(this);
    try {
      for (int round = 0; round < AgentJobs.ROUNDS; round++) {
        var answer = unlessEnded(() -> Optional.of(send(followUp)));
        if (answer.isEmpty()) answer = unlessEnded(() -> followUpAfterEnd(followUp, runs));
        if (answer.isPresent()) return answer.get();
        Thread.sleep(BETWEEN_ROUNDS_MS);
      }
    } catch (FollowUpRefused refused) {
      throw refused;
    } catch (RuntimeException error) {
      // Whatever it is, an attempt may have been taken, unless the request itself is wrong.
      if (Status.fromThrowable(error).getCode() != Status.Code.INVALID_ARGUMENT) {
        throw new FollowUpUnconfirmed(followUp.id(), error);
      }
      throw new FollowUpRefused(String.valueOf(error.getMessage()));
    }
    throw new FollowUpUnconfirmed(followUp.id(), null);
  }

  /** Empty where the run has ended, or is about to: it surely did not take the follow-up, and the next run does. */
  private static Optional<FollowUpAnswer> unlessEnded(Supplier<Optional<FollowUpAnswer>> attempt) {
    try {
      return attempt.get();
    } catch (WorkflowNotFoundException ended) {
      return Optional.empty();
    } catch (WorkflowUpdateException refused) {
      if (isEnding(refused)) return Optional.empty();
      // Accepted, and then the workflow was ended from outside.
      if (typeOf(refused).equals("AcceptedUpdateCompletedWorkflow")) throw refused;
      throw new FollowUpRefused(refused.getCause().getMessage());
    }
  }

  private Optional<FollowUpAnswer> followUpAfterEnd(FollowUpInput followUp, ClosedRuns runs) {
    var readAt = System.nanoTime();
    Run run;
    try {
      run = readRun();
    } catch (StatusRuntimeException error) {
      if (error.getStatus().getCode() != Status.Code.NOT_FOUND) throw error;
      throw new FollowUpRefused("there is no " + workflowId);
    }
    var isOpen = run.status() == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_RUNNING;
    return isOpen ? Optional.empty() : new Continuation(this, run, runs, readAt).followUp(followUp);
  }

  private FollowUpAnswer send(FollowUpInput followUp) {
    var options =
        UpdateOptions.newBuilder(FollowUpAnswer.class)
            .setUpdateName("sendFollowUp")
            .setUpdateId(updateId(followUp))
            .setWaitForStage(WorkflowUpdateStage.COMPLETED)
            .build();
    return stub().startUpdate(options, followUp).getResult();
  }

  /** Temporal repeats the first answer to an update id, whatever its text: another text is another update. */
  static String updateId(FollowUpInput followUp) {
    return followUp.id() + ":" + AgentJobs.promptHash(followUp.prompt());
  }

  /** The workflow refuses messages right before its end: surely not sent, and the next run takes it. */
  private static boolean isEnding(WorkflowUpdateException refused) {
    if (!(refused.getCause() instanceof ApplicationFailure failure)) return false;
    return failure.getDetails().getSize() > 0 && "job".equals(failure.getDetails().get(0, Map.class).get("field"));
  }

  private static String typeOf(WorkflowUpdateException refused) {
    return refused.getCause() instanceof ApplicationFailure failure ? failure.getType() : "";
  }

  /**
   * A run as Temporal itself describes it. The first of a chain that continued as new has the caller's input. Known are
   * the closed runs that the caller who started it had read.
   */
  record Run(String id, String firstId, WorkflowExecutionStatus status, String hash, List<String> known) {}

  static final String AFTER = "agent-jobs/after/";

  Run readRun() {
    var request =
        DescribeWorkflowExecutionRequest.newBuilder()
            .setNamespace(namespace())
            .setExecution(WorkflowExecution.newBuilder().setWorkflowId(workflowId))
            .build();
    var service = jobs.client.getWorkflowServiceStubs().blockingStub();
    var description = service.describeWorkflowExecution(request);
    var info = description.getWorkflowExecutionInfo();
    var id = info.getExecution().getRunId();
    var firstId = info.getFirstRunId().isEmpty() ? id : info.getFirstRunId();
    var memo = info.getMemo().getFieldsMap().get("inputHash");
    // Without a memo the workflow has not begun yet.
    var hash = memo == null ? AgentJobs.inputHash(startInput(firstId)) : decoded(memo, String.class);
    var requestIds = description.getWorkflowExtendedInfo().getRequestIdInfosMap().keySet().stream();
    var known = requestIds.filter(one -> one.startsWith(AFTER)).map(one -> one.substring(AFTER.length())).toList();
    return new Run(id, firstId, info.getStatus(), hash, known);
  }

  String namespace() {
    return jobs.client.getOptions().getNamespace();
  }

  DataConverter converter() {
    return jobs.client.getOptions().getDataConverter();
  }

  private <T> T decoded(Payload payload, Class<T> type) {
    return converter().fromPayload(payload, type, type);
  }

  /** The caller's own input, from the first event. */
  Map<String, Object> startInput(String runId) {
    return inputOf(firstEvents(runId, 1).getHistory().getEvents(0));
  }

  @SuppressWarnings("unchecked")
  Map<String, Object> inputOf(HistoryEvent started) {
    return decoded(started.getWorkflowExecutionStartedEventAttributes().getInput().getPayloads(0), Map.class);
  }

  GetWorkflowExecutionHistoryResponse firstEvents(String runId, int limit) {
    var request =
        GetWorkflowExecutionHistoryRequest.newBuilder()
            .setNamespace(namespace())
            .setExecution(WorkflowExecution.newBuilder().setWorkflowId(workflowId).setRunId(runId))
            .setMaximumPageSize(limit)
            .build();
    return jobs.client.getWorkflowServiceStubs().blockingStub().getWorkflowExecutionHistory(request);
  }

  /** Whether the run failed in a way after which there is surely no job, so that the key may start again. */
  boolean madeNoJob(Run last, ClosedRuns runs) {
    if (last.status() != WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED) return false;
    if (!runs.isSurelyNoJob(last.id())) return false;
    // A run that a follow-up started has the memo of the first run, and so another hash: there is a job.
    var own = startInput(last.firstId());
    return own.get("jobId") == null || AgentJobs.inputHash(own).equals(last.hash());
  }

  /**
   * The closed runs before the last one; a chain that continued as new counts by its end. Empty where another run is
   * the last one by now.
   */
  Optional<List<String>> earlierRuns(Run last) {
    var query = "WorkflowId = '" + workflowId + "' AND WorkflowType = 'agentJob'";
    var found = jobs.client.listExecutions(query + " AND ExecutionStatus != 'ContinuedAsNew'");
    var others = found.map(run -> run.getExecution().getRunId()).filter(id -> !id.equals(last.id())).toList();
    if (!others.isEmpty() && !readRun().id().equals(last.id())) return Optional.empty();
    return Optional.of(Stream.concat(others.stream(), last.known().stream()).distinct().toList());
  }
}
