// Calls of the example's client, each a line of JSON whose args are CALL KEY TEXT [ID]: it prints one with the answer.
// An empty line gives the call up that is under way.
package main

import (
	"bufio"
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
)

type given struct {
	Args    []string
	Address string
	Codec   bool
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	cancel := func() {}
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			cancel()
			continue
		}
		var call given
		check(json.Unmarshal(lines.Bytes(), &call))
		var ctx context.Context
		ctx, cancel = context.WithCancel(context.Background())
		go answer(ctx, call)
	}
}

func answer(ctx context.Context, call given) {
	var encoded converter.DataConverter
	if call.Codec {
		codec := converter.NewZlibCodec(converter.ZlibCodecOptions{AlwaysEncode: true})
		encoded = converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), codec)
	}
	namespace := os.Getenv("TEMPORAL_NAMESPACE")
	temporalClient, err := client.Dial(client.Options{
		HostPort: call.Address, Namespace: namespace, DataConverter: encoded,
		Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	})
	check(err)
	defer temporalClient.Close()
	taskQueue := os.Getenv("AGENT_JOBS_TASK_QUEUE")
	jobs := &agentjobs.AgentJobs{
		Client: temporalClient, Namespace: namespace, TaskQueue: taskQueue, DataConverter: encoded,
	}
	check(json.NewEncoder(os.Stdout).Encode(perform(ctx, jobs, call.Args)))
}

func perform(ctx context.Context, jobs *agentjobs.AgentJobs, args []string) map[string]any {
	call, key, text := args[0], args[1], args[2]
	project := os.Getenv("PROJECT")
	switch call {
	case "start":
		return isNew(jobs.Start(ctx, key, agentjobs.CreateJobInput{ProjectId: project, Prompt: text}))
	case "attach":
		return isNew(jobs.Attach(ctx, key, agentjobs.AttachJobInput{ProjectId: project, JobId: text}))
	}
	followUp := agentjobs.FollowUpInput{Prompt: text}
	if len(args) > 3 {
		followUp.Id = args[3]
	}
	answer, err := jobs.Job(project, key).FollowUp(ctx, followUp)
	var unconfirmed *agentjobs.FollowUpUnconfirmed
	var refused *agentjobs.FollowUpRefused
	if errors.As(err, &unconfirmed) {
		return map[string]any{"error": "unconfirmed", "id": unconfirmed.Id}
	}
	isNamed := errors.Is(err, agentjobs.ErrFollowUpConflict) || errors.Is(err, agentjobs.ErrNotFound)
	if errors.As(err, &refused) && isNamed {
		return map[string]any{"error": "refused"}
	}
	check(err)
	return map[string]any{"state": answer.State}
}

func isNew(job *agentjobs.Job, err error) map[string]any {
	if errors.Is(err, agentjobs.ErrKey) {
		return map[string]any{"error": "invalid"}
	}
	check(err)
	return map[string]any{"isNew": job.IsNew}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
