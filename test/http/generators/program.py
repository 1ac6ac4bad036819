"""Starts a job and reads three others with the client that openapi-generator made."""

import sys

import openapi_client as made

url, key, project, name = sys.argv[1:]
with made.ApiClient(made.Configuration(host=url, access_token=key)) as client:
    jobs = made.JobsApi(client)
    start = made.StartJobRequest(prompt="do it", settle="0 s")
    print("started", str(jobs.start_job(project, f"by-{name}", start).is_new).lower())
    for one in ["running", "completed", "failed"]:
        job = jobs.get_job(project, one)
        if job.result is not None:
            print(job.result.outcome, job.result.pr_link)
        elif job.failure is not None:
            print("failed", job.failure.type)
        else:
            print("running", job.state.phase)
