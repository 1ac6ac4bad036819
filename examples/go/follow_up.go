package agentjobs

// Follow-ups, and starts that continue from a closed run.

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/update/v1"
	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
)

const (
	// From reading a closed run to the start that continues from it.
	startWithin = 5 * time.Second
	// With less time left than this, the next round starts: it has read all of this by then.
	leastLeft             = 2 * time.Second
	betweenRounds         = 200 * time.Millisecond
	maxAttachedRequestIds = 20
)

// FollowUpUnconfirmed says that the follow-up may or may not be sent: say it again with the same Id.
type FollowUpUnconfirmed struct {
	Id    string
	cause error
}

func (e *FollowUpUnconfirmed) Error() string {
	return fmt.Sprintf("the follow-up %s is not confirmed: say it again with the same id: %v", e.Id, e.cause)
}

// Unwrap gives what kept the follow-up from being confirmed.
func (e *FollowUpUnconfirmed) Unwrap() error { return e.cause }

// FollowUpRefused says that the follow-up was surely not sent. It wraps ErrFollowUpConflict, ErrNoJob, ErrNotFound, or
// the error of whoever found it wrong.
type FollowUpRefused struct{ cause error }

func (e *FollowUpRefused) Error() string { return "the follow-up is refused: " + e.cause.Error() }

func (e *FollowUpRefused) Unwrap() error { return e.cause }

var errOutOfRounds = errors.New("the workflow ended again and again, or Temporal was slow to start it")

// ErrFollowUpConflict says that the follow-up's id was taken before with another prompt.
var ErrFollowUpConflict = errors.New("the follow-up's id was taken before with another prompt: choose another id")

// ErrNoJob says that the workflow ended without a job to send a follow-up to.
var ErrNoJob = errors.New("the workflow ended without a job")

// ErrNotFound says that there is no such workflow, or Temporal no longer keeps it.
var ErrNotFound = errors.New("there is no such workflow")

// FollowUp sends a follow-up, and starts an ended job again for it. The same id is sent at most once, ever.
// Every error is FollowUpRefused, or FollowUpUnconfirmed.
func (job *Job) FollowUp(ctx context.Context, followUp FollowUpInput) (FollowUpAnswer, error) {
	if followUp.Id == "" {
		followUp.Id = rand.Text()
	}
	runs := newClosedRuns(job)
	for range rounds {
		answer, err := job.sendToRun(ctx, followUp)
		if !isEnded(err) {
			return answer, refusedOrUnconfirmed(err, followUp.Id)
		}
		known, err := job.followUpAfterEnd(ctx, followUp, runs)
		if err != nil || known != nil {
			return valueOf(known), refusedOrUnconfirmed(err, followUp.Id)
		}
		time.Sleep(betweenRounds)
	}
	return FollowUpAnswer{}, &FollowUpUnconfirmed{followUp.Id, errOutOfRounds}
}

func (job *Job) sendToRun(ctx context.Context, followUp FollowUpInput) (answer FollowUpAnswer, err error) {
	handle, err := job.jobs.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID:   job.WorkflowId,
		UpdateID:     updateId(followUp),
		UpdateName:   "sendFollowUp",
		Args:         []any{followUp},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return answer, err
	}
	return answer, handle.Get(ctx, &answer)
}

// The workflow has ended, or refuses messages right before its end: surely not sent, and the next run takes it.
func isEnded(err error) bool {
	var missing *serviceerror.NotFound
	var refused *temporal.ApplicationError
	var details struct{ Field string }
	if errors.As(err, &refused) && refused.Details(&details) == nil {
		return details.Field == "job"
	}
	return errors.As(err, &missing)
}

// Whatever an error is, the follow-up may have been taken, unless it is a definite refusal.
func refusedOrUnconfirmed(err error, id string) error {
	var refused *temporal.ApplicationError
	var invalid *serviceerror.InvalidArgument
	// An accepted one is not, whose workflow was then ended from outside.
	isRefused := errors.As(err, &refused) && refused.Type() != "AcceptedUpdateCompletedWorkflow"
	switch {
	case err == nil:
		return nil
	case isRefused && refused.Type() == "FollowUpConflict":
		return &FollowUpRefused{fmt.Errorf("%w: %w", ErrFollowUpConflict, err)}
	case isRefused, errors.As(err, &invalid), errors.Is(err, ErrNoJob), errors.Is(err, ErrNotFound),
		errors.Is(err, ErrFollowUpConflict):
		return &FollowUpRefused{err}
	default:
		return &FollowUpUnconfirmed{id, err}
	}
}

func valueOf(answer *FollowUpAnswer) FollowUpAnswer {
	if answer == nil {
		return FollowUpAnswer{}
	}
	return *answer
}

// Starts the ended workflow id again, attached to its job, and sends the follow-up there in one request. Nil where the
// run is no longer the last one.
func (job *Job) followUpAfterEnd(
	ctx context.Context, followUp FollowUpInput, runs *closedRuns,
) (*FollowUpAnswer, error) {
	readAt := time.Now()
	last, err := job.readRun(ctx)
	var missing *serviceerror.NotFound
	if errors.As(err, &missing) {
		return nil, ErrNotFound
	}
	if err != nil || last.status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return nil, err
	}
	earlier, err := job.earlierRuns(ctx, last)
	if errors.Is(err, errFollowed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	states, err := runs.finalStates(ctx, last.id, except(earlier, last.known))
	if err != nil {
		return nil, err
	}
	input, err := job.startInput(ctx, last.firstId)
	if err != nil {
		return nil, err
	}
	used := []string{}
	for _, state := range states {
		used = append(used, state.usedIds...)
	}
	if slices.Contains(used, followUp.Id) {
		return fateOf(followUp, states)
	}
	slices.Sort(used)
	input["prompt"], input["jobId"], input["usedFollowUpIds"] = nil, states[0].jobId, slices.Compact(used)
	// This policy is safe here alone: a run with jobId creates nothing.
	start, err := job.requestAfter(last.id, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, input, last.hash)
	if err != nil {
		return nil, err
	}
	answer, err := job.startWithUpdate(ctx, start, followUp, readAt)
	job.attachRequestIds(ctx, earlier)
	if isLate(err) || isEnded(err) {
		return nil, nil
	}
	return answer, err
}

// The state of a used id; unknown where only the id was handed on, or the run was terminated meanwhile.
func fateOf(followUp FollowUpInput, states []finalState) (*FollowUpAnswer, error) {
	id := followUp.Id
	for _, state := range states {
		if hash, isKnown := state.promptHashes[id]; isKnown && hash != promptHash(followUp) {
			return nil, ErrFollowUpConflict
		}
		for _, known := range state.followUps {
			if known.Id == id && known.State != "abandoned" && known.State != "queued" {
				return &FollowUpAnswer{Id: id, State: known.State, Job: states[0].job}, nil
			}
		}
	}
	return &FollowUpAnswer{Id: id, State: "unknown", Job: states[0].job}, nil
}

// Tells whether an id that is said again names the same prompt, as promptHashes of state and result has it.
func promptHash(followUp FollowUpInput) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(followUp.Prompt)))[:8]
}

// Temporal repeats the first answer to an update id, whatever its text: another text is another update.
func updateId(followUp FollowUpInput) string {
	return followUp.Id + ":" + promptHash(followUp)
}

func (job *Job) startWithUpdate(
	ctx context.Context, start *workflowservice.StartWorkflowExecutionRequest, followUp FollowUpInput, readAt time.Time,
) (*FollowUpAnswer, error) {
	args, err := job.jobs.converter().ToPayloads(followUp)
	if err != nil {
		return nil, err
	}
	accepted := enums.UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED
	request := &workflowservice.UpdateWorkflowExecutionRequest{
		Namespace:         start.Namespace,
		WorkflowExecution: &common.WorkflowExecution{WorkflowId: job.WorkflowId},
		WaitPolicy:        &update.WaitPolicy{LifecycleStage: accepted},
		Request: &update.Request{
			Meta:  &update.Meta{UpdateId: updateId(followUp)},
			Input: &update.Input{Name: "sendFollowUp", Args: args},
		},
	}
	type operation = workflowservice.ExecuteMultiOperationRequest_Operation
	limited, cancel := context.WithDeadline(ctx, readAt.Add(startWithin))
	defer cancel()
	response, err := job.jobs.Client.WorkflowService().ExecuteMultiOperation(
		limited, &workflowservice.ExecuteMultiOperationRequest{Namespace: start.Namespace, Operations: []*operation{
			{Operation: &workflowservice.ExecuteMultiOperationRequest_Operation_StartWorkflow{StartWorkflow: start}},
			{Operation: &workflowservice.ExecuteMultiOperationRequest_Operation_UpdateWorkflow{UpdateWorkflow: request}},
		}})
	if err != nil {
		return nil, err
	}
	if failure := response.Responses[1].GetUpdateWorkflow().GetOutcome().GetFailure(); failure != nil {
		options := temporal.DefaultFailureConverterOptions{DataConverter: job.jobs.converter()}
		return nil, temporal.NewDefaultFailureConverter(options).FailureToError(failure)
	}
	handle := job.jobs.Client.GetWorkflowUpdateHandle(client.GetWorkflowUpdateHandleOptions{
		WorkflowID: job.WorkflowId, RunID: response.Responses[0].GetStartWorkflow().RunId, UpdateID: updateId(followUp),
	})
	var answer FollowUpAnswer
	return &answer, handle.Get(ctx, &answer)
}

// Continues from a run that made no job. False, or a late error, where another caller did first.
func (job *Job) startAgain(
	ctx context.Context, last run, runs *closedRuns, input any, wanted string, readAt time.Time,
) (bool, error) {
	earlier, err := job.earlierRuns(ctx, last)
	if err != nil {
		return false, err
	}
	for _, end := range runs.ends(ctx, except(earlier, last.known)) {
		if end.err != nil {
			return false, end.err
		}
		if !end.isSurelyNoJob {
			return false, &KeyConflict{"an earlier run of " + job.WorkflowId + " may have made a job"}
		}
	}
	if time.Until(readAt.Add(startWithin)) < leastLeft {
		return false, nil
	}
	start, err := job.requestAfter(last.id, enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE_FAILED_ONLY, input, wanted)
	if err != nil {
		return false, err
	}
	limited, cancel := context.WithDeadline(ctx, readAt.Add(startWithin))
	defer cancel()
	if _, err := job.jobs.Client.WorkflowService().StartWorkflowExecution(limited, start); err != nil {
		return false, err
	}
	job.attachRequestIds(ctx, earlier)
	now, err := job.readRun(ctx)
	return now.hash == wanted, err
}

// A start that Temporal makes once, however many callers continue from the same closed run.
func (job *Job) requestAfter(
	runId string, policy enums.WorkflowIdReusePolicy, input any, hash string,
) (*workflowservice.StartWorkflowExecutionRequest, error) {
	args, err := job.jobs.converter().ToPayloads(input)
	if err != nil {
		return nil, err
	}
	memo, err := job.jobs.converter().ToPayload(hash)
	return &workflowservice.StartWorkflowExecutionRequest{
		Namespace:                job.jobs.Namespace,
		WorkflowId:               job.WorkflowId,
		WorkflowType:             &common.WorkflowType{Name: "agentJob"},
		TaskQueue:                &taskqueue.TaskQueue{Name: job.jobs.TaskQueue},
		Input:                    args,
		Memo:                     &common.Memo{Fields: map[string]*common.Payload{"inputHash": memo}},
		RequestId:                afterRun + runId,
		WorkflowIdReusePolicy:    policy,
		WorkflowIdConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, err
}

// Makes Temporal answer late starts after earlier runs with the run that runs now. It never makes a run.
func (job *Job) attachRequestIds(ctx context.Context, runIds []string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	for _, runId := range runIds[:min(len(runIds), maxAttachedRequestIds)] {
		request, err := job.requestAfter(runId, enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, nil, "")
		if err != nil {
			return
		}
		request.OnConflictOptions = &workflow.OnConflictOptions{AttachRequestId: true}
		if _, err := job.jobs.Client.WorkflowService().StartWorkflowExecution(ctx, request); err != nil {
			return // The time limit alone guards the start then.
		}
	}
}

// Whether another run has followed the closed one, or Temporal did not answer in time: read again.
func isLate(err error) bool {
	var late *serviceerror.DeadlineExceeded
	var taken *serviceerror.WorkflowExecutionAlreadyStarted
	if err == nil || errors.Is(err, errFollowed) || errors.Is(err, context.DeadlineExceeded) {
		return err != nil
	}
	return errors.As(err, &late) || errors.As(err, &taken) || strings.Contains(err.Error(), "StartDeduped")
}
