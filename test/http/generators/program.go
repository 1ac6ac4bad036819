// Starts a job and reads three others with the client that oapi-codegen made.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"

	"example.com/program/jobs"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func main() {
	url, key, project, name := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	withKey := jobs.WithRequestEditorFn(func(_ context.Context, request *http.Request) error {
		request.Header.Set("Authorization", "Bearer "+key)
		return nil
	})
	client := must(jobs.NewClientWithResponses(url, withKey))
	prompt, settle := "do it", "0 s"
	params := &jobs.StartJobParams{IdempotencyKey: "by-" + name}
	body := jobs.StartJobRequest{Prompt: &prompt, Settle: &settle}
	started := must(client.StartJobWithResponse(context.Background(), project, params, body))
	fmt.Println("started", started.JSON201.IsNew)
	for _, one := range []string{"running", "completed", "failed"} {
		job := must(client.GetJobWithResponse(context.Background(), project, one, nil)).JSON200
		if job.Result != nil {
			fmt.Println(job.Result.Outcome, *job.Result.PrLink)
		} else if job.Failure != nil {
			fmt.Println("failed", job.Failure.Type)
		} else {
			fmt.Println("running", job.State.Phase)
		}
	}
}
