// What a caller may rely on: each step prints one line of JSON. The examples of all languages tell the same.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"os"
	"time"

	"agentjobs"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
)

type facts map[string]any

func tell(step string, told facts) {
	told["step"] = step
	line, err := json.Marshal(told)
	check(err)
	os.Stdout.Write(append(line, '\n'))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

// How each of these jobs ends is decided by the sandbox upstream, which goes by the prompt.
func otherJobs(project string) []agentjobs.CreateJobInput {
	return []agentjobs.CreateJobInput{
		{ProjectId: project, Prompt: "archived"},
		{ProjectId: project, Prompt: "failed"},
		{ProjectId: project, Prompt: "timedOut", Deadline: "1 second"},
		{ProjectId: project, Prompt: "abandoned"},
		{ProjectId: project, Prompt: "InvalidInput", Deadline: "tomorrow"},
		{ProjectId: project, Prompt: "CreateRejected"},
		{ProjectId: project, Prompt: "UnknownOutcome", OnUnknownOutcome: "fail"},
		{ProjectId: project, Prompt: "lost", Polling: &agentjobs.Polling{Max: "1 second"}},
		{ProjectId: project, Prompt: "Canceled"},
		{ProjectId: project, Prompt: "Terminated"},
	}
}

func endOf(ctx context.Context, job *agentjobs.Job) string {
	result, err := job.Result(ctx)
	var failed *agentjobs.JobFailed
	if errors.As(err, &failed) {
		return failed.Type
	}
	check(err)
	return result.Outcome
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	namespace, project := os.Getenv("TEMPORAL_NAMESPACE"), os.Args[1]
	logger := sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler))
	address := os.Getenv("TEMPORAL_ADDRESS")
	temporal := must(client.Dial(client.Options{HostPort: address, Namespace: namespace, Logger: logger}))
	defer temporal.Close()
	jobs := &agentjobs.AgentJobs{Client: temporal, Namespace: namespace, TaskQueue: os.Getenv("AGENT_JOBS_TASK_QUEUE")}

	others := map[string]*agentjobs.Job{}
	for _, other := range otherJobs(project) {
		others[other.Prompt] = must(jobs.Start(ctx, other.Prompt, other))
	}
	tellOfTicket(ctx, jobs, agentjobs.CreateJobInput{ProjectId: project, Prompt: "Schreib «Grüße» 🐍\n"})

	canceled := others["Canceled"]
	check(canceled.Cancel(ctx))
	end := endOf(ctx, canceled)
	answer := must(canceled.FollowUp(ctx, agentjobs.FollowUpInput{Prompt: "Go on", Id: "on"}))
	tell("follow-up after a cancel", facts{"ended": end, "state": answer.State, "outcome": endOf(ctx, canceled)})
	check(temporal.TerminateWorkflow(ctx, others["Terminated"].WorkflowId, "", "by the story"))
	for must(others["abandoned"].State(ctx)).Unknown == nil {
		time.Sleep(200 * time.Millisecond)
	}
	must(temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID:   others["abandoned"].WorkflowId,
		UpdateName:   "resolveUnknown",
		Args:         []any{map[string]string{"action": "abandon"}},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	}))
	for _, other := range otherJobs(project) {
		if other.Prompt == "Canceled" {
			continue
		}
		tell("told apart", facts{"expected": other.Prompt, "told": endOf(ctx, others[other.Prompt])})
	}
	another := agentjobs.CreateJobInput{ProjectId: project, Prompt: "Another prompt"}
	const callers = 5
	ends := make(chan string)
	for range callers {
		go func() { ends <- endOf(ctx, must(jobs.Start(ctx, "CreateRejected", another))) }()
	}
	outcomes := []string{}
	for range callers {
		outcomes = append(outcomes, <-ends)
	}
	tell("refused key starts again", facts{"outcomes": outcomes})
}

func tellOfTicket(ctx context.Context, jobs *agentjobs.AgentJobs, ticket agentjobs.CreateJobInput) {
	const key = "a (ticket)/1"
	job := must(jobs.Start(ctx, key, ticket))
	tell("started", facts{"workflowId": job.WorkflowId, "isNew": job.IsNew})
	again := must(jobs.Start(ctx, key, ticket))
	tell("repeated while it runs", facts{"workflowId": again.WorkflowId, "isNew": again.IsNew})
	another := ticket
	another.Prompt = "Another"
	var conflict *agentjobs.KeyConflict
	if _, err := jobs.Start(ctx, key, another); errors.As(err, &conflict) {
		tell("another prompt refused", facts{})
	}

	test := agentjobs.FollowUpInput{Prompt: "Add a test", Id: "test"}
	first, second := must(job.FollowUp(ctx, test)), must(job.FollowUp(ctx, test))
	tell("follow-up said twice", facts{"states": []string{first.State, second.State}})
	state := must(job.State(ctx))
	for ; state.Waiting == nil; state = must(job.State(ctx)) {
		time.Sleep(100 * time.Millisecond)
	}
	tell("state while it waits", facts{"phase": state.Phase, "waitsFor": state.Waiting.For, "jobId": state.JobId})

	result := must(job.Result(ctx))
	tell("ended", facts{"outcome": result.Outcome, "prLink": result.Job.PrLink, "jobId": result.JobId})
	again = must(jobs.Start(ctx, key, ticket))
	tell("repeated after its end", facts{"workflowId": again.WorkflowId, "isNew": again.IsNew})
	known := must(job.FollowUp(ctx, test))
	tell("used id after the end", facts{"state": known.State})

	docs := agentjobs.FollowUpInput{Prompt: "Add docs", Id: "docs"}
	twin := make(chan agentjobs.FollowUpAnswer)
	go func() { twin <- must(job.FollowUp(ctx, docs)) }()
	after := must(job.FollowUp(ctx, docs))
	tell("follow-up after the end", facts{"states": []string{after.State, (<-twin).State}})
	result = must(job.Result(ctx))
	tell("ended again", facts{"outcome": result.Outcome, "jobId": result.JobId, "usedIds": result.UsedFollowUpIds})
	last := must(job.FollowUp(ctx, agentjobs.FollowUpInput{Prompt: "One more", Id: "last"}))
	result = must(job.Result(ctx))
	tell("ended once more", facts{"state": last.State, "outcome": result.Outcome, "usedIds": result.UsedFollowUpIds})
	again = must(jobs.Start(ctx, key, ticket))
	tell("repeated after all", facts{"isNew": again.IsNew})
}
