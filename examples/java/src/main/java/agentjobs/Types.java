package agentjobs;

import com.fasterxml.jackson.annotation.JsonProperty;
import java.util.List;
import java.util.Map;

/** Written from docs/contract/agent-jobs.schema.json by npm run docs:contract. */
public interface Types {
  record Polling(
      Object min,
      Object max,
      Double ratio) {}

  /**
   * A job to create.
   */
  record CreateJobInput(
      String projectId,
      String prompt,
      Integer priority,
      String batch,
      List<String> tags,
      Map<String, String> metadata,
      Object deadline,
      Object startWithin,
      Polling polling,
      String onUnknownOutcome,
      Object decideWithin,
      Object settle,
      Object linger) {
    public CreateJobInput(String projectId, String prompt) {
      this(projectId, prompt, null, null, null, null, null, null, null, null, null, null, null);
    }
  }

  /**
   * A job that exists upstream already, to attach to.
   */
  record AttachJobInput(
      String projectId,
      String jobId,
      List<String> usedFollowUpIds,
      Integer priority,
      String batch,
      List<String> tags,
      Map<String, String> metadata,
      Object deadline,
      Object startWithin,
      Polling polling,
      String onUnknownOutcome,
      Object decideWithin,
      Object settle,
      Object linger) {
    public AttachJobInput(String projectId, String jobId) {
      this(projectId, jobId, null, null, null, null, null, null, null, null, null, null, null, null);
    }
  }

  /**
   * The argument of `followUp` and `sendFollowUp`.
   */
  record FollowUpInput(
      String prompt,
      String id,
      Integer priority) {
    public FollowUpInput(String prompt) {
      this(prompt, null, null);
    }
  }

  record Source(
      String repository,
      String ref) {}

  /**
   * The upstream's record of a job: the fields of its interface and no others, absent ones null.
   */
  record JobRecord(
      String id,
      String status,
      Source source,
      String model,
      String prLink,
      String createdAt,
      String archivedAt) {}

  /**
   * The result of the update `sendFollowUp`.
   */
  record FollowUpAnswer(
      String id,
      String state,
      JobRecord job) {}

  /**
   * One follow-up as shown by state and result; never its prompt.
   */
  record FollowUpStatus(
      String id,
      String state,
      String error) {}

  /**
   * A write in doubt: nobody knows whether the upstream accepted it. Times are ISO 8601 UTC with milliseconds.
   */
  record InDoubtWrite(
      String kind,
      String followUpId,
      String reason,
      String since,
      String lookAfter) {}

  /**
   * Why no request is under way. Times are ISO 8601 UTC with milliseconds.
   */
  record Waiting(
      @JsonProperty("for") String reasonToWait,
      String since,
      String until,
      Integer position,
      String reason) {}

  /**
   * What a person decided about a write in doubt, once it was carried out.
   */
  record Decision(
      String action,
      String kind,
      String followUpId,
      String jobId,
      String by,
      String note,
      String at) {}

  /**
   * A job as the query `jobState` tells it. Times are ISO 8601 UTC with milliseconds.
   */
  record JobState(
      String phase,
      String projectId,
      String jobId,
      JobRecord job,
      List<FollowUpStatus> followUps,
      List<String> usedFollowUpIds,
      Map<String, String> promptHashes,
      InDoubtWrite unknown,
      Waiting waiting,
      List<Decision> decisions,
      String outcome,
      List<String> tags,
      Map<String, String> metadata,
      String startedAt,
      String lastChangeAt,
      Integer polls) {}

  /**
   * The result of `agentJob`.
   */
  record AgentJobResult(
      String outcome,
      String jobId,
      JobRecord job,
      String projectId,
      List<FollowUpStatus> followUps,
      List<String> usedFollowUpIds,
      Map<String, String> promptHashes,
      List<Decision> decisions,
      List<String> tags,
      Map<String, String> metadata,
      String startedAt,
      String finishedAt,
      Integer polls) {}

  /**
   * Details of the failure `InvalidInput`, also of a refused update.
   */
  record InvalidInputDetails(
      String field) {}

  /**
   * Details of the failure `CreateRejected`.
   */
  record CreateRejectedDetails(
      Integer status,
      String error) {}

  /**
   * Details of the failure `UnknownOutcome`.
   */
  record UnknownOutcomeDetails(
      String kind,
      String jobId,
      String followUpId,
      String reason) {}
}
