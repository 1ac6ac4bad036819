package agentjobs

// What the closed runs of a job's workflow tell.

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
)

const (
	readAtOnce = 10
	// A query of a closed run is answered by replay; longer means that no worker is there.
	queryLimit = 10 * time.Second
)

// How a run ended, or why that can't be read.
type runEnd struct {
	isSurelyNoJob bool
	result        *AgentJobResult
	err           error
}

// What a run's result or last state tells.
type finalState struct {
	jobId     *string
	job       *JobRecord
	followUps []FollowUpStatus
	usedIds   []string
	// By id, of follow-ups whose prompt is known.
	promptHashes map[string]string
}

// What one call reads of a job's closed runs: once, however many rounds it takes, for it does not change.
type closedRuns struct {
	job    *Job
	lock   sync.Mutex
	read   map[string]runEnd
	states map[string]finalState
}

func newClosedRuns(job *Job) *closedRuns {
	return &closedRuns{job: job, read: map[string]runEnd{}, states: map[string]finalState{}}
}

func (runs *closedRuns) end(ctx context.Context, runId string) runEnd {
	return runs.ends(ctx, []string{runId})[0]
}

// How these runs ended, some of them read at the same time.
func (runs *closedRuns) ends(ctx context.Context, runIds []string) []runEnd {
	ends := make([]runEnd, len(runIds))
	free := make(chan struct{}, readAtOnce)
	var all sync.WaitGroup
	for i, runId := range runIds {
		free <- struct{}{}
		all.Go(func() {
			ends[i] = runs.readEnd(ctx, runId)
			<-free
		})
	}
	all.Wait()
	return ends
}

func (runs *closedRuns) readEnd(ctx context.Context, runId string) runEnd {
	runs.lock.Lock()
	end, isRead := runs.read[runId]
	runs.lock.Unlock()
	if isRead {
		return end
	}
	result, err := runs.job.resultOf(ctx, runId)
	var failed *JobFailed
	switch {
	case err == nil:
		end = runEnd{result: &result}
	case errors.As(err, &failed):
		end = runEnd{isSurelyNoJob: failed.isSurelyNoJob()}
	default:
		return runEnd{err: err}
	}
	runs.lock.Lock()
	defer runs.lock.Unlock()
	runs.read[runId] = end
	return end
}

// The last run's state first, then those of its job's other runs. Fails where one can't be read: a forgotten id could
// be sent twice.
func (runs *closedRuns) finalStates(ctx context.Context, last string, others []string) ([]finalState, error) {
	runIds := append([]string{last}, others...)
	ends := runs.ends(ctx, runIds)
	states := []finalState{}
	for i, runId := range runIds {
		if ends[i].err != nil {
			return nil, ends[i].err
		}
		if !ends[i].isSurelyNoJob {
			state, err := runs.finalState(ctx, runId, ends[i])
			if err != nil {
				return nil, err
			}
			if i == 0 || state.jobId == nil || *state.jobId == *states[0].jobId {
				states = append(states, state)
			}
		}
		if len(states) == 0 || states[0].jobId == nil {
			return nil, ErrNoJob
		}
	}
	return states, nil
}

func (runs *closedRuns) finalState(ctx context.Context, runId string, end runEnd) (state finalState, err error) {
	if result := end.result; result != nil {
		return finalState{result.JobId, result.Job, result.FollowUps, result.UsedFollowUpIds, result.PromptHashes}, nil
	}
	if known, isRead := runs.states[runId]; isRead {
		return known, nil
	}
	unbegun, err := runs.unbegunState(ctx, runId)
	if err != nil {
		return state, err
	}
	if unbegun != nil {
		state = *unbegun
	} else if state, err = runs.askState(ctx, runId); err != nil {
		return state, err
	}
	runs.states[runId] = state
	return state, nil
}

func (runs *closedRuns) askState(ctx context.Context, runId string) (finalState, error) {
	ctx, cancel := context.WithTimeout(ctx, queryLimit)
	defer cancel()
	state, err := runs.job.stateOf(ctx, runId, map[string]bool{"isClosed": true})
	return finalState{state.JobId, state.Job, state.FollowUps, state.UsedFollowUpIds, state.PromptHashes}, err
}

// A run that was ended before its first workflow task answers no query, and did nothing with its input. Nil for any
// other run.
func (runs *closedRuns) unbegunState(ctx context.Context, runId string) (*finalState, error) {
	all := enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT
	events := runs.job.jobs.Client.GetWorkflowHistory(ctx, runs.job.WorkflowId, runId, false, all)
	var input struct {
		JobId           *string
		UsedFollowUpIds []string
	}
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return nil, err
		}
		started := event.GetWorkflowExecutionStartedEventAttributes()
		if event.GetWorkflowTaskCompletedEventAttributes() != nil || started.GetContinuedExecutionRunId() != "" {
			return nil, nil
		}
		if started == nil {
			continue
		}
		if err := runs.job.jobs.converter().FromPayload(inputOf(event), &input); err != nil {
			return nil, err
		}
	}
	return &finalState{jobId: input.JobId, usedIds: input.UsedFollowUpIds}, nil
}
