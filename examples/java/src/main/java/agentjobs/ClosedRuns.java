package agentjobs;

import agentjobs.Types.AgentJobResult;
import agentjobs.Types.JobState;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** What one call reads of a job's closed runs: once, however many rounds it takes, for it does not change. */
final class ClosedRuns {
  /** A longer history without a workflow task has dozens of messages to a workflow that no worker ran. */
  private static final int MAX_UNBEGUN_EVENTS = 100;

  private final Job job;
  /** Results, and JobFailed. */
  private final Map<String, Object> ends = new ConcurrentHashMap<>();

  private final Map<String, FinalState> states = new ConcurrentHashMap<>();

  ClosedRuns(Job job) {
    this.job = job;
  }

  /** What a run's result or last state tells. */
  record FinalState(
      String jobId,
      Types.JobRecord job,
      List<Types.FollowUpStatus> followUps,
      List<String> usedFollowUpIds,
      Map<String, String> promptHashes) {}

  boolean isSurelyNoJob(String runId) {
    return endOf(runId) instanceof Job.JobFailed failure && failure.isSurelyNoJob();
  }

  /** Empty where there is surely no job. Throws where a run tells nothing: a forgotten id could be sent twice. */
  Optional<FinalState> finalState(String runId) {
    if (isSurelyNoJob(runId)) return Optional.empty();
    return Optional.of(states.computeIfAbsent(runId, this::readState));
  }

  private Object endOf(String runId) {
    return ends.computeIfAbsent(runId, this::readEnd);
  }

  private Object readEnd(String runId) {
    try {
      return Job.result(job.stub(runId));
    } catch (Job.JobFailed failure) {
      return failure;
    }
  }

  private FinalState readState(String runId) {
    if (endOf(runId) instanceof AgentJobResult end) {
      return new FinalState(end.jobId(), end.job(), end.followUps(), end.usedFollowUpIds(), end.promptHashes());
    }
    return unbegunState(runId).orElseGet(() -> askState(runId));
  }

  private FinalState askState(String runId) {
    var state = job.stub(runId).query("jobState", JobState.class, Map.of("isClosed", true));
    return new FinalState(
        state.jobId(), state.job(), state.followUps(), state.usedFollowUpIds(), state.promptHashes());
  }

  /** A run that was ended before its first workflow task answers no query, and did nothing with its input. */
  @SuppressWarnings("unchecked")
  private Optional<FinalState> unbegunState(String runId) {
    var page = job.firstEvents(runId, MAX_UNBEGUN_EVENTS);
    var events = page.getHistory().getEventsList();
    var started = events.get(0);
    var isContinued = !started.getWorkflowExecutionStartedEventAttributes().getContinuedExecutionRunId().isEmpty();
    var hasBegun = events.stream().anyMatch(event -> event.hasWorkflowTaskCompletedEventAttributes());
    if (isContinued || hasBegun || !page.getNextPageToken().isEmpty()) return Optional.empty();
    var input = job.inputOf(started);
    var used = (List<String>) input.get("usedFollowUpIds");
    var ids = used == null ? List.<String>of() : used;
    return Optional.of(new FinalState((String) input.get("jobId"), null, List.of(), ids, Map.of()));
  }
}
