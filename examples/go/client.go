// Package agentjobs calls agent jobs from Go: one key is one job, and a follow-up with an id is sent once. Copy it; it
// needs go.temporal.io/sdk. The rules are those of docs/contract.md, which our TypeScript client follows too.
package agentjobs

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
)

// Each further round means that another caller continued from the same ended run, or that a start came too late.
const rounds = 5

// KeyConflict says that the key names a job with another input.
type KeyConflict struct{ Reason string }

func (e *KeyConflict) Error() string { return e.Reason }

// What every Temporal server keeps.
const maxWorkflowIdCharacters = 255

// ErrKey says that the key can't name a job: nothing was sent.
var ErrKey = fmt.Errorf("key must be well-formed text without control characters, at least one character, and make a "+
	"workflow id of at most %d characters", maxWorkflowIdCharacters)

// JobFailed says that the job ended without a result. Type is its failure type, Canceled, Terminated or TimedOut.
type JobFailed struct {
	Type  string
	cause error
}

func (e *JobFailed) Error() string { return e.Type + ": " + e.cause.Error() }

// Unwrap gives the *temporal.ApplicationError, whose Details decode into InvalidInputDetails and its like.
func (e *JobFailed) Unwrap() error { return e.cause }

func (e *JobFailed) isSurelyNoJob() bool {
	return e.Type == "InvalidInput" || e.Type == "CreateRejected"
}

// AgentJobs starts and finds jobs.
type AgentJobs struct {
	Client    client.Client
	Namespace string
	TaskQueue string
	// DataConverter is that of Client, where it has one of its own.
	DataConverter converter.DataConverter
}

func (jobs *AgentJobs) converter() converter.DataConverter {
	if jobs.DataConverter != nil {
		return jobs.DataConverter
	}
	return converter.GetDefaultDataConverter()
}

// Job is a job by its workflow id. It has as many runs as follow-ups continued it after its end.
type Job struct {
	WorkflowId string
	// IsNew says whether Start made it, or met it.
	IsNew bool
	jobs  *AgentJobs
}

// Job is the job of a key, without a request.
func (jobs *AgentJobs) Job(projectId, key string) *Job {
	return &Job{WorkflowId: "agent-job/" + encoded(projectId) + "/" + encoded(key), jobs: jobs}
}

// Start starts the job, or joins the one that key and input already name; IsNew says which. Fails with KeyConflict, or
// with ErrKey.
func (jobs *AgentJobs) Start(ctx context.Context, key string, input CreateJobInput) (*Job, error) {
	return jobs.start(ctx, key, jobs.Job(input.ProjectId, key), input, inputHash(input.ProjectId, "prompt", input.Prompt))
}

// Attach does the same for a job that exists upstream already.
func (jobs *AgentJobs) Attach(ctx context.Context, key string, input AttachJobInput) (*Job, error) {
	return jobs.start(ctx, key, jobs.Job(input.ProjectId, key), input, inputHash(input.ProjectId, "jobId", input.JobId))
}

func (jobs *AgentJobs) start(ctx context.Context, key string, job *Job, input any, wanted string) (*Job, error) {
	if !isKey(key) || len(job.WorkflowId) > maxWorkflowIdCharacters {
		return nil, ErrKey
	}
	runs := newClosedRuns(job)
	for range rounds {
		isNew, err := jobs.startNew(ctx, job.WorkflowId, input, wanted)
		if err != nil || isNew {
			return job.made(true), err
		}
		readAt := time.Now()
		run, err := job.readRun(ctx)
		if err != nil {
			return nil, err
		}
		hasNoJob, err := job.madeNoJob(ctx, run, runs)
		if err != nil {
			return nil, err
		}
		if !hasNoJob && run.hash == wanted {
			return job.made(false), nil
		}
		if !hasNoJob {
			return nil, &KeyConflict{"the key of " + job.WorkflowId + " names a job with another prompt"}
		}
		if done, err := job.startAgain(ctx, run, runs, input, wanted, readAt); !isLate(err) && (err != nil || done) {
			return job.made(true), err
		}
	}
	return nil, &KeyConflict{"the key of " + job.WorkflowId + " is started again and again by others"}
}

// An empty key, such as a variable that is not set, would be one job for all.
func isKey(key string) bool {
	return key != "" && utf8.ValidString(key) && !strings.ContainsFunc(key, unicode.IsControl)
}

func (jobs *AgentJobs) startNew(ctx context.Context, workflowId string, input any, wanted string) (bool, error) {
	_, err := jobs.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                                       workflowId,
		TaskQueue:                                jobs.TaskQueue,
		Memo:                                     map[string]any{"inputHash": wanted},
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
	}, "agentJob", input)
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &taken) {
		return false, nil
	}
	return err == nil, err
}

func (job *Job) made(isNew bool) *Job {
	job.IsNew = isNew
	return job
}

// State is the job as the query tells it.
func (job *Job) State(ctx context.Context) (state JobState, err error) {
	return job.stateOf(ctx, "")
}

func (job *Job) stateOf(ctx context.Context, runId string, args ...any) (state JobState, err error) {
	value, err := job.jobs.Client.QueryWorkflow(ctx, job.WorkflowId, runId, "jobState", args...)
	if err != nil {
		return state, err
	}
	return state, value.Get(&state)
}

// Cancel stops the watch; the upstream can't cancel, so the remote job goes on.
func (job *Job) Cancel(ctx context.Context) error {
	return job.jobs.Client.CancelWorkflow(ctx, job.WorkflowId, "")
}

// Result waits for the end: a result, whose Outcome says which, or JobFailed.
func (job *Job) Result(ctx context.Context) (AgentJobResult, error) {
	return job.resultOf(ctx, "")
}

func (job *Job) resultOf(ctx context.Context, runId string) (result AgentJobResult, err error) {
	run := job.jobs.Client.GetWorkflow(ctx, job.WorkflowId, runId)
	err = run.GetWithOptions(ctx, &result, client.WorkflowRunGetOptions{DisableFollowingRuns: runId != ""})
	var ended *temporal.WorkflowExecutionError
	if errors.As(err, &ended) {
		return result, jobFailed(ended.Unwrap())
	}
	return result, err
}

func jobFailed(cause error) *JobFailed {
	var application *temporal.ApplicationError
	var canceled *temporal.CanceledError
	var terminated *temporal.TerminatedError
	switch {
	case errors.As(cause, &application):
		return &JobFailed{application.Type(), cause}
	case errors.As(cause, &canceled):
		return &JobFailed{"Canceled", cause}
	case errors.As(cause, &terminated):
		return &JobFailed{"Terminated", cause}
	default:
		return &JobFailed{"TimedOut", cause}
	}
}

// A run as Temporal itself describes it.
type run struct {
	id, firstId string
	status      enums.WorkflowExecutionStatus
	hash        string
	// The closed runs that the caller who started this one had read.
	known []string
}

const afterRun = "agent-jobs/after/"

func (job *Job) readRun(ctx context.Context) (run, error) {
	answer, err := job.jobs.Client.DescribeWorkflowExecution(ctx, job.WorkflowId, "")
	if err != nil {
		return run{}, err
	}
	info := answer.WorkflowExecutionInfo
	found := run{id: info.Execution.RunId, firstId: info.FirstRunId, status: info.Status}
	for requestId := range answer.GetWorkflowExtendedInfo().GetRequestIdInfos() {
		if runId, isAfter := strings.CutPrefix(requestId, afterRun); isAfter {
			found.known = append(found.known, runId)
		}
	}
	if found.firstId == "" {
		found.firstId = found.id
	}
	if memo := info.Memo.GetFields()["inputHash"]; memo != nil {
		return found, job.jobs.converter().FromPayload(memo, &found.hash)
	}
	// The workflow has not begun yet, and was started without a memo.
	own, err := job.startInput(ctx, found.firstId)
	found.hash = hashOf(own)
	return found, err
}

func inputOf(started *history.HistoryEvent) *common.Payload {
	return started.GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0]
}

// The caller's own input, from the first event.
func (job *Job) startInput(ctx context.Context, runId string) (input map[string]any, err error) {
	all := enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT
	event, err := job.jobs.Client.GetWorkflowHistory(ctx, job.WorkflowId, runId, false, all).Next()
	if err != nil {
		return nil, err
	}
	return input, job.jobs.converter().FromPayload(inputOf(event), &input)
}

// Whether the run failed in a way after which there is surely no job, so that the key may start again.
func (job *Job) madeNoJob(ctx context.Context, last run, runs *closedRuns) (bool, error) {
	if last.status != enums.WORKFLOW_EXECUTION_STATUS_FAILED {
		return false, nil
	}
	if end := runs.end(ctx, last.id); end.err != nil || !end.isSurelyNoJob {
		return false, end.err
	}
	// A run that a follow-up started has the memo of the first run, and so another hash: there is a job.
	own, err := job.startInput(ctx, last.firstId)
	return err == nil && (own["jobId"] == nil || hashOf(own) == last.hash), err
}

// The last run is another one by now: read again.
var errFollowed = errors.New("another run has followed")

// The closed runs before the last one, newest first; a chain that continued as new counts by its end.
func (job *Job) earlierRuns(ctx context.Context, last run) ([]string, error) {
	runIds, err := job.otherRuns(ctx, last)
	if err != nil || len(runIds) == 0 {
		return last.known, err
	}
	runIds = append(runIds, except(last.known, runIds)...)
	now, err := job.readRun(ctx)
	if err == nil && now.id != last.id {
		err = errFollowed
	}
	return runIds, err
}

func except(runIds, others []string) (left []string) {
	for _, runId := range runIds {
		if !slices.Contains(others, runId) {
			left = append(left, runId)
		}
	}
	return left
}

func (job *Job) otherRuns(ctx context.Context, last run) (runIds []string, err error) {
	query := "WorkflowId = '" + job.WorkflowId + "' AND WorkflowType = 'agentJob'"
	query += " AND ExecutionStatus != 'ContinuedAsNew'"
	request := &workflowservice.ListWorkflowExecutionsRequest{Namespace: job.jobs.Namespace, Query: query}
	for {
		page, err := job.jobs.Client.ListWorkflow(ctx, request)
		if err != nil {
			return nil, err
		}
		for _, found := range page.Executions {
			if found.Execution.RunId != last.id {
				runIds = append(runIds, found.Execution.RunId)
			}
		}
		if len(page.NextPageToken) == 0 {
			return runIds, nil
		}
		request.NextPageToken = page.NextPageToken
	}
}

// What makes two starts the same job: project and prompt, or project and job id. Options do not count.
func inputHash(projectId, field, value string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(projectId+"\x00"+field+"\x00"+value)))
}

func hashOf(input map[string]any) string {
	text := func(field string) string { value, _ := input[field].(string); return value }
	if input["prompt"] != nil {
		return inputHash(text("projectId"), "prompt", text("prompt"))
	}
	return inputHash(text("projectId"), "jobId", text("jobId"))
}

// Letters, digits and -._~ stay; every other byte becomes %XX.
func encoded(part string) string {
	return strings.ReplaceAll(url.QueryEscape(part), "+", "%20")
}
