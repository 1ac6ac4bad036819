// Starts a job and reads three others with the client that openapi-generator made. The test puts in how a library
// is told of the address and the key.
import java.util.List;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.JobsApi;
import org.openapitools.client.model.Job;
import org.openapitools.client.model.StartJobRequest;

public class Program {
  public static void main(String[] args) throws Exception {
    String url = args[0], key = args[1], project = args[2], name = args[3];
    ApiClient client = new ApiClient();
    // SET UP
    JobsApi jobs = new JobsApi(client);
    StartJobRequest start = new StartJobRequest().prompt("do it").settle("0 s");
    System.out.println("started " + jobs.startJob(project, "by-" + name, start).getIsNew());
    for (String one : List.of("running", "completed", "failed")) {
      Job job = jobs.getJob(project, one, null);
      if (job.getResult() != null) System.out.println(job.getResult().getOutcome() + " " + job.getResult().getPrLink());
      else if (job.getFailure() != null) System.out.println("failed " + job.getFailure().getType());
      else System.out.println("running " + job.getState().getPhase());
    }
  }
}
