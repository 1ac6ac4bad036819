package agentjobs;

import agentjobs.Types.CreateJobInput;
import agentjobs.Types.FollowUpAnswer;
import agentjobs.Types.Polling;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowClientOptions;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Stream;

/** What a caller may rely on: each step prints one line of JSON. The examples of all languages tell the same. */
public final class Story {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final ExecutorService CALLERS = Executors.newFixedThreadPool(5);
  private static final String KEY = "a (ticket)/1";

  private final AgentJobs jobs;
  private final String project;

  private Story(AgentJobs jobs, String project) {
    this.jobs = jobs;
    this.project = project;
  }

  public static void main(String[] args) throws Exception {
    var target = WorkflowServiceStubsOptions.newBuilder().setTarget(System.getenv("TEMPORAL_ADDRESS")).build();
    // A cold start on a busy machine takes longer than the SDK waits for its first call.
    var service = WorkflowServiceStubs.newConnectedServiceStubs(target, Duration.ofMinutes(1));
    var options = WorkflowClientOptions.newBuilder().setNamespace(System.getenv("TEMPORAL_NAMESPACE")).build();
    var client = WorkflowClient.newInstance(service, options);
    new Story(new AgentJobs(client, System.getenv("AGENT_JOBS_TASK_QUEUE")), args[0]).tellAll();
    service.shutdownNow();
  }

  private static void tell(String step, Object... facts) throws JsonProcessingException {
    var told = new LinkedHashMap<String, Object>(Map.of("step", step));
    for (int index = 0; index < facts.length; index += 2) told.put((String) facts[index], facts[index + 1]);
    System.out.println(JSON.writeValueAsString(told));
  }

  private CreateJobInput input(String prompt) {
    return new CreateJobInput(project, prompt);
  }

  private CreateJobInput input(String prompt, String deadline, Polling polling, String onUnknownOutcome) {
    return new CreateJobInput(
        project, prompt, null, null, null, null, deadline, null, polling, onUnknownOutcome, null, null, null);
  }

  /** How each of these jobs ends is decided by the sandbox upstream, which goes by the prompt. */
  private List<CreateJobInput> otherJobs() {
    return List.of(
        input("archived"),
        input("failed"),
        input("timedOut", "1 second", null, null),
        input("abandoned"),
        input("InvalidInput", "tomorrow", null, null),
        input("CreateRejected"),
        input("UnknownOutcome", null, null, "fail"),
        input("lost", null, new Polling(null, "1 second", null), null),
        input("Canceled"),
        input("Terminated"));
  }

  private static String endOf(Job job) {
    try {
      return job.result().outcome();
    } catch (Job.JobFailed failure) {
      return failure.type;
    }
  }

  private void tellAll() throws Exception {
    var others = new LinkedHashMap<String, Job>();
    for (var other : otherJobs()) others.put(other.prompt(), jobs.start(other.prompt(), other));
    tellOfTicket(input("Schreib «Grüße» 🐍\n"));

    var canceled = others.remove("Canceled");
    canceled.cancel();
    var end = endOf(canceled);
    var answer = canceled.followUp("Go on", "on");
    tell("follow-up after a cancel", "ended", end, "state", answer.state(), "outcome", endOf(canceled));
    others.get("Terminated").stub().terminate("by the story");
    var abandoned = others.get("abandoned");
    while (abandoned.state().unknown() == null) Thread.sleep(200);
    abandoned.stub().update("resolveUnknown", Map.class, Map.of("action", "abandon"));
    for (var other : others.entrySet()) {
      tell("told apart", "expected", other.getKey(), "told", endOf(other.getValue()));
    }
    var ends =
        Stream.generate(() -> CompletableFuture.supplyAsync(this::startAgain, CALLERS)).limit(5).toList();
    tell("refused key starts again", "outcomes", ends.stream().map(CompletableFuture::join).toList());
    CALLERS.shutdown();
  }

  private String startAgain() {
    return endOf(jobs.start("CreateRejected", input("Another prompt")));
  }

  private void tellOfTicket(CreateJobInput ticket) throws Exception {
    var job = jobs.start(KEY, ticket);
    tell("started", "workflowId", job.workflowId, "isNew", job.isNew);
    var again = jobs.start(KEY, ticket);
    tell("repeated while it runs", "workflowId", again.workflowId, "isNew", again.isNew);
    try {
      jobs.start(KEY, input("Another"));
    } catch (AgentJobs.KeyConflict conflict) {
      tell("another prompt refused");
    }

    var first = job.followUp("Add a test", "test");
    var second = job.followUp("Add a test", "test");
    tell("follow-up said twice", "states", List.of(first.state(), second.state()));
    var state = job.state();
    for (; state.waiting() == null; state = job.state()) Thread.sleep(100);
    var waitsFor = state.waiting().reasonToWait();
    tell("state while it waits", "phase", state.phase(), "waitsFor", waitsFor, "jobId", state.jobId());

    var result = job.result();
    tell("ended", "outcome", result.outcome(), "prLink", result.job().prLink(), "jobId", result.jobId());
    again = jobs.start(KEY, ticket);
    tell("repeated after its end", "workflowId", again.workflowId, "isNew", again.isNew);
    tell("used id after the end", "state", job.followUp("Add a test", "test").state());

    var twin = CompletableFuture.supplyAsync(() -> addDocs(job));
    var after = addDocs(job);
    tell("follow-up after the end", "states", List.of(after.state(), twin.get().state()));
    result = job.result();
    tell("ended again", "outcome", result.outcome(), "jobId", result.jobId(), "usedIds", result.usedFollowUpIds());
    var last = job.followUp("One more", "last");
    result = job.result();
    tell("ended once more", "state", last.state(), "outcome", result.outcome(), "usedIds", result.usedFollowUpIds());
    tell("repeated after all", "isNew", jobs.start(KEY, ticket).isNew);
  }

  private static FollowUpAnswer addDocs(Job job) {
    try {
      return job.followUp("Add docs", "docs");
    } catch (InterruptedException interrupted) {
      throw new IllegalStateException(interrupted);
    }
  }
}
