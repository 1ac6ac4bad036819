import agentjobs.AgentJobs;
import agentjobs.Job;
import agentjobs.Types.AttachJobInput;
import agentjobs.Types.CreateJobInput;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.ByteString;
import com.google.protobuf.InvalidProtocolBufferException;
import io.temporal.api.common.v1.Payload;
import io.temporal.client.WorkflowClient;
import io.temporal.client.WorkflowClientOptions;
import io.temporal.common.converter.CodecDataConverter;
import io.temporal.common.converter.DefaultDataConverter;
import io.temporal.payload.codec.PayloadCodec;
import io.temporal.serviceclient.WorkflowServiceStubs;
import io.temporal.serviceclient.WorkflowServiceStubsOptions;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.zip.DeflaterOutputStream;
import java.util.zip.InflaterOutputStream;

/**
 * Calls of the example's client, each a line of JSON whose args are CALL KEY TEXT [ID]: it prints one with the answer.
 * An empty line gives the call up that is under way.
 */
final class Call {
  private static final ObjectMapper JSON = new ObjectMapper();

  private record Given(List<String> args, String address, boolean codec) {}

  public static void main(String[] args) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    Thread caller = null;
    for (var line = lines.readLine(); line != null; line = lines.readLine()) {
      if (line.isEmpty()) {
        if (caller != null) caller.interrupt();
        continue;
      }
      var given = JSON.readValue(line, Given.class);
      caller = new Thread(() -> answer(given));
      caller.start();
    }
    System.exit(0);
  }

  private static void answer(Given given) {
    try {
      var target = WorkflowServiceStubsOptions.newBuilder().setTarget(given.address()).build();
      var options = WorkflowClientOptions.newBuilder().setNamespace(System.getenv("TEMPORAL_NAMESPACE"));
      if (given.codec()) {
        var plain = DefaultDataConverter.newDefaultInstance();
        options.setDataConverter(new CodecDataConverter(plain, List.of(new Zlib())));
      }
      // A cold start on a busy machine takes longer than the SDK waits for its first call.
      var service = WorkflowServiceStubs.newConnectedServiceStubs(target, Duration.ofMinutes(1));
      var client = WorkflowClient.newInstance(service, options.build());
      var jobs = new AgentJobs(client, System.getenv("AGENT_JOBS_TASK_QUEUE"));
      System.out.println(JSON.writeValueAsString(perform(jobs, given.args())));
      service.shutdownNow();
    } catch (Exception failed) {
      failed.printStackTrace();
      System.exit(1);
    }
  }

  private static Map<String, Object> perform(AgentJobs jobs, List<String> args) throws InterruptedException {
    var project = System.getenv("PROJECT");
    var key = args.get(1);
    var text = args.get(2);
    try {
      if (args.get(0).equals("start")) return Map.of("isNew", jobs.start(key, new CreateJobInput(project, text)).isNew);
    } catch (IllegalArgumentException wrong) {
      return Map.of("error", "invalid");
    }
    if (args.get(0).equals("attach")) return Map.of("isNew", jobs.attach(key, new AttachJobInput(project, text)).isNew);
    try {
      return Map.of("state", jobs.job(project, key).followUp(text, args.size() > 3 ? args.get(3) : null).state());
    } catch (Job.FollowUpUnconfirmed unconfirmed) {
      return Map.of("error", "unconfirmed", "id", unconfirmed.id);
    } catch (Job.FollowUpRefused refused) {
      return Map.of("error", "refused");
    }
  }

  /** The SDK's own leaves small payloads as they are. */
  private static final class Zlib implements PayloadCodec {
    @Override
    public List<Payload> encode(List<Payload> payloads) {
      return payloads.stream().map(Zlib::deflated).toList();
    }

    @Override
    public List<Payload> decode(List<Payload> payloads) {
      return payloads.stream().map(Zlib::inflated).toList();
    }

    private static Payload deflated(Payload payload) {
      var bytes = new ByteArrayOutputStream();
      write(new DeflaterOutputStream(bytes), payload.toByteArray());
      var data = ByteString.copyFrom(bytes.toByteArray());
      return Payload.newBuilder().putMetadata("encoding", ByteString.copyFromUtf8("binary/zlib")).setData(data).build();
    }

    private static Payload inflated(Payload payload) {
      var bytes = new ByteArrayOutputStream();
      write(new InflaterOutputStream(bytes), payload.getData().toByteArray());
      try {
        return Payload.parseFrom(bytes.toByteArray());
      } catch (InvalidProtocolBufferException wrong) {
        throw new IllegalArgumentException(wrong);
      }
    }

    private static void write(OutputStream to, byte[] bytes) {
      try (to) {
        to.write(bytes);
      } catch (IOException wrong) {
        throw new UncheckedIOException(wrong);
      }
    }
  }
}
