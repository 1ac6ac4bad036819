// One call of the example's client, whose answer is printed: CALL KEY TEXT [ID]. A line on standard input ends it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"os"

	"agentjobs"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
)

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		if n, _ := os.Stdin.Read(make([]byte, 1)); n > 0 {
			cancel()
		}
	}()
	var encoded converter.DataConverter
	if os.Getenv("CODEC") != "" {
		codec := converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})
		encoded = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec)
	}
	namespace := os.Getenv("TEMPORAL_NAMESPACE")
	temporalClient, err := client.Dial(client.Options{
		HostPort: os.Getenv("TEMPORAL_ADDRESS"), Namespace: namespace, DataConverter: encoded,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	check(err)
	taskQueue := os.Getenv("AGENT_JOBS_TASK_QUEUE")
	jobs := &agentjobs.AgentJobs{
		Client: temporalClient, Namespace: namespace, TaskQueue: taskQueue, DataConverter: encoded,
	}
	check(json.NewEncoder(os.Stdout).Encode(perform(ctx, jobs, os.Args[1], os.Args[2], os.Args[3])))
}

func perform(ctx context.Context, jobs *agentjobs.AgentJobs, call, key, text string) map[string]any {
	project := os.Getenv("PROJECT")
	switch call {
	case "start":
		return isNew(jobs.Start(ctx, key, agentjobs.CreateJobInput{ProjectId: project, Prompt: text}))
	case "attach":
		return isNew(jobs.Attach(ctx, key, agentjobs.AttachJobInput{ProjectId: project, JobId: text}))
	}
	followUp := agentjobs.FollowUpInput{Prompt: text}
	if len(os.Args) > 4 {
		followUp.Id = os.Args[4]
	}
	answer, err := jobs.Job(project, key).FollowUp(ctx, followUp)
	var unconfirmed *agentjobs.FollowUpUnconfirmed
	var refused *temporal.ApplicationError
	if errors.As(err, &unconfirmed) {
		return map[string]any{"error": "unconfirmed", "id": unconfirmed.Id}
	}
	isKnown := errors.Is(err, agentjobs.ErrFollowUpConflict) || errors.Is(err, agentjobs.ErrNotFound)
	if isKnown || errors.As(err, &refused) || errors.Is(err, agentjobs.ErrNoJob) {
		return map[string]any{"error": "refused"}
	}
	check(err)
	return map[string]any{"state": answer.State}
}

func isNew(job *agentjobs.Job, err error) map[string]any {
	check(err)
	return map[string]any{"isNew": job.IsNew}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
