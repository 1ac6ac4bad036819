package agentjobs

// Written from docs/contract/agent-jobs.schema.json by npm run docs:contract.

type Polling struct {
	Min   any      `json:"min,omitempty"`
	Max   any      `json:"max,omitempty"`
	Ratio *float64 `json:"ratio,omitempty"`
}

// CreateJobInput: A job to create.
type CreateJobInput struct {
	ProjectId        string            `json:"projectId"`
	Prompt           string            `json:"prompt"`
	Priority         *int              `json:"priority,omitempty"`
	Batch            string            `json:"batch,omitempty"`
	Tags             []string          `json:"tags,omitempty"`
	Metadata         map[string]string `json:"metadata,omitempty"`
	Deadline         any               `json:"deadline,omitempty"`
	StartWithin      any               `json:"startWithin,omitempty"`
	Polling          *Polling          `json:"polling,omitempty"`
	OnUnknownOutcome string            `json:"onUnknownOutcome,omitempty"`
	DecideWithin     any               `json:"decideWithin,omitempty"`
	Settle           any               `json:"settle,omitempty"`
	Linger           any               `json:"linger,omitempty"`
}

// AttachJobInput: A job that exists upstream already, to attach to.
type AttachJobInput struct {
	ProjectId        string            `json:"projectId"`
	JobId            string            `json:"jobId"`
	UsedFollowUpIds  []string          `json:"usedFollowUpIds,omitempty"`
	Priority         *int              `json:"priority,omitempty"`
	Batch            string            `json:"batch,omitempty"`
	Tags             []string          `json:"tags,omitempty"`
	Metadata         map[string]string `json:"metadata,omitempty"`
	Deadline         any               `json:"deadline,omitempty"`
	StartWithin      any               `json:"startWithin,omitempty"`
	Polling          *Polling          `json:"polling,omitempty"`
	OnUnknownOutcome string            `json:"onUnknownOutcome,omitempty"`
	DecideWithin     any               `json:"decideWithin,omitempty"`
	Settle           any               `json:"settle,omitempty"`
	Linger           any               `json:"linger,omitempty"`
}

// FollowUpInput: The argument of `followUp` and `sendFollowUp`.
type FollowUpInput struct {
	Prompt   string `json:"prompt"`
	Id       string `json:"id,omitempty"`
	Priority *int   `json:"priority,omitempty"`
}

type Source struct {
	Repository *string `json:"repository"`
	Ref        *string `json:"ref"`
}

// JobRecord: The upstream's record of a job: the fields of its interface and no others, absent ones null.
type JobRecord struct {
	Id         string  `json:"id"`
	Status     string  `json:"status"`
	Source     *Source `json:"source"`
	Model      *string `json:"model"`
	PrLink     *string `json:"prLink"`
	CreatedAt  *string `json:"createdAt"`
	ArchivedAt *string `json:"archivedAt"`
}

// FollowUpAnswer: The result of the update `sendFollowUp`.
type FollowUpAnswer struct {
	Id    string     `json:"id"`
	State string     `json:"state"`
	Job   *JobRecord `json:"job"`
}

// FollowUpStatus: One follow-up as shown by state and result; never its prompt.
type FollowUpStatus struct {
	Id    string `json:"id"`
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// InDoubtWrite: A write in doubt: nobody knows whether the upstream accepted it. Times are ISO 8601 UTC with
// milliseconds.
type InDoubtWrite struct {
	Kind       string `json:"kind"`
	FollowUpId string `json:"followUpId,omitempty"`
	Reason     string `json:"reason"`
	Since      string `json:"since"`
	LookAfter  string `json:"lookAfter"`
}

// Waiting: Why no request is under way. Times are ISO 8601 UTC with milliseconds.
type Waiting struct {
	For      string `json:"for"`
	Since    string `json:"since"`
	Until    string `json:"until,omitempty"`
	Position *int   `json:"position,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// Decision: What a person decided about a write in doubt, once it was carried out.
type Decision struct {
	Action     string `json:"action"`
	Kind       string `json:"kind"`
	FollowUpId string `json:"followUpId,omitempty"`
	JobId      string `json:"jobId,omitempty"`
	By         string `json:"by,omitempty"`
	Note       string `json:"note,omitempty"`
	At         string `json:"at"`
}

// JobState: A job as the query `jobState` tells it. Times are ISO 8601 UTC with milliseconds.
type JobState struct {
	Phase           string            `json:"phase"`
	ProjectId       string            `json:"projectId"`
	JobId           *string           `json:"jobId"`
	Job             *JobRecord        `json:"job"`
	FollowUps       []FollowUpStatus  `json:"followUps"`
	UsedFollowUpIds []string          `json:"usedFollowUpIds"`
	PromptHashes    map[string]string `json:"promptHashes"`
	Unknown         *InDoubtWrite     `json:"unknown"`
	Waiting         *Waiting          `json:"waiting"`
	Decisions       []Decision        `json:"decisions"`
	Outcome         *string           `json:"outcome"`
	Tags            []string          `json:"tags"`
	Metadata        map[string]string `json:"metadata"`
	StartedAt       string            `json:"startedAt"`
	LastChangeAt    string            `json:"lastChangeAt"`
	Polls           int               `json:"polls"`
}

// AgentJobResult: The result of `agentJob`.
type AgentJobResult struct {
	Outcome         string            `json:"outcome"`
	JobId           *string           `json:"jobId"`
	Job             *JobRecord        `json:"job"`
	ProjectId       string            `json:"projectId"`
	FollowUps       []FollowUpStatus  `json:"followUps"`
	UsedFollowUpIds []string          `json:"usedFollowUpIds"`
	PromptHashes    map[string]string `json:"promptHashes"`
	Decisions       []Decision        `json:"decisions"`
	Tags            []string          `json:"tags"`
	Metadata        map[string]string `json:"metadata"`
	StartedAt       string            `json:"startedAt"`
	FinishedAt      string            `json:"finishedAt"`
	Polls           int               `json:"polls"`
}

// InvalidInputDetails: Details of the failure `InvalidInput`, also of a refused update.
type InvalidInputDetails struct {
	Field string `json:"field"`
}

// CreateRejectedDetails: Details of the failure `CreateRejected`.
type CreateRejectedDetails struct {
	Status int    `json:"status"`
	Error  string `json:"error"`
}

// UnknownOutcomeDetails: Details of the failure `UnknownOutcome`.
type UnknownOutcomeDetails struct {
	Kind       string  `json:"kind"`
	JobId      *string `json:"jobId"`
	FollowUpId *string `json:"followUpId"`
	Reason     string  `json:"reason"`
}
