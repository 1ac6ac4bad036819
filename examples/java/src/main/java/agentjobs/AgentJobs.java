package agentjobs;

import agentjobs.Types.AttachJobInput;
import agentjobs.Types.CreateJobInput;
import io.temporal.api.enums.v1.WorkflowIdConflictPolicy;
import io.temporal.api.enums.v1.WorkflowIdReusePolicy;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowExecutionAlreadyStarted;
import io.temporal.client.WorkflowOptions;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * Agent jobs from Java: one key is one job, and a follow-up with an id is sent once. Copy the package; it needs
 * io.temporal:temporal-sdk. The rules are those of docs/contract.md, which our TypeScript client follows too.
 */
public final class AgentJobs {
  /** Each further round means that another caller continued from the same run, or that a start came too late. */
  static final int ROUNDS = 5;

  /** What every Temporal server keeps. */
  private static final int MAX_WORKFLOW_ID_CHARACTERS = 255;

  /** Control characters, and halves of surrogate pairs. */
  private static final Pattern NO_TEXT = Pattern.compile("[\\p{Cc}\\p{Cs}]");

  final WorkflowClient client;
  final String taskQueue;

  public AgentJobs(WorkflowClient client, String taskQueue) {
    this.client = client;
    this.taskQueue = taskQueue;
  }

  /** The key names a job with another input. */
  public static final class KeyConflict extends RuntimeException {
    KeyConflict(String message) {
      super(message);
    }
  }

  /** The job of a key, without a request. */
  public Job job(String projectId, String key) {
    return new Job(this, "agent-job/" + encoded(projectId) + "/" + encoded(key), false);
  }

  /**
   * Starts the job, or joins the one that key and input already name; isNew says which. Throws KeyConflict, and
   * IllegalArgumentException where the key can't name a job.
   */
  public Job start(String key, CreateJobInput input) {
    return start(toStart(input.projectId(), key), input, inputHash(input.projectId(), "prompt", input.prompt()));
  }

  /** The same for a job that exists upstream already. */
  public Job attach(String key, AttachJobInput input) {
    return start(toStart(input.projectId(), key), input, inputHash(input.projectId(), "jobId", input.jobId()));
  }

  /** An empty key, such as a variable that is not set, would be one job for all. */
  private Job toStart(String projectId, String key) {
    var job = job(projectId, key);
    var isText = !key.isEmpty() && !NO_TEXT.matcher(key).find();
    if (isText && job.workflowId.length() <= MAX_WORKFLOW_ID_CHARACTERS) return job;
    var rule = "key must be well-formed text without control characters, at least one character, and make a workflow";
    throw new IllegalArgumentException(rule + " id of at most " + MAX_WORKFLOW_ID_CHARACTERS + " characters");
  }

  private Job start(Job job, Object input, String wanted) {
    var runs = new ClosedRuns(job);
    for (int round = 0; round < ROUNDS; round++) {
      if (startNew(job.workflowId, input, wanted)) return job.made(true);
      var readAt = System.nanoTime();
      var run = job.readRun();
      if (!job.madeNoJob(run, runs)) {
        if (run.hash().equals(wanted)) return job.made(false);
        throw new KeyConflict("the key of " + job.workflowId + " names a job with another prompt");
      }
      if (new Continuation(job, run, runs, readAt).startAgain(input, wanted)) return job.made(true);
    }
    throw new KeyConflict("the key of " + job.workflowId + " is started again and again by others");
  }

  private boolean startNew(String workflowId, Object input, String wanted) {
    var options =
        WorkflowOptions.newBuilder()
            .setWorkflowId(workflowId)
            .setTaskQueue(taskQueue)
            .setMemo(Map.of("inputHash", wanted))
            .setWorkflowIdReusePolicy(WorkflowIdReusePolicy.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE)
            .setWorkflowIdConflictPolicy(WorkflowIdConflictPolicy.WORKFLOW_ID_CONFLICT_POLICY_FAIL)
            .build();
    try {
      client.newUntypedWorkflowStub("agentJob", options).start(input);
      return true;
    } catch (WorkflowExecutionAlreadyStarted taken) {
      return false;
    }
  }

  /** What makes two starts the same job: project and prompt, or project and job id. Options do not count. */
  static String inputHash(String projectId, String field, String value) {
    return sha256(projectId + "\0" + field + "\0" + value);
  }

  /** Tells whether an id that is said again names the same prompt, as promptHashes of state and result has it. */
  static String promptHash(String prompt) {
    return sha256(prompt).substring(0, 8);
  }

  private static String sha256(String text) {
    try {
      var bytes = text.getBytes(StandardCharsets.UTF_8);
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException impossible) {
      throw new IllegalStateException(impossible);
    }
  }

  static String inputHash(Map<?, ?> input) {
    var field = input.get("prompt") != null ? "prompt" : "jobId";
    return inputHash((String) input.get("projectId"), field, (String) input.get(field));
  }

  /** Letters, digits and -._~ stay; every other byte becomes %XX. */
  private static String encoded(String part) {
    var form = URLEncoder.encode(part, StandardCharsets.UTF_8);
    return form.replace("+", "%20").replace("*", "%2A").replace("%7E", "~");
  }
}
