"""Written from docs/contract/agent-jobs.schema.json by npm run docs:contract."""

from typing import Literal

from typing_extensions import NotRequired, TypedDict

# How often to read the job.
Polling = TypedDict(
    "Polling",
    {
        "min": NotRequired[float | str | None],
        "max": NotRequired[float | str | None],
        "ratio": NotRequired[float | None],
    },
)

# A job to create.
CreateJobInput = TypedDict(
    "CreateJobInput",
    {
        "projectId": str,
        "prompt": str,
        "priority": NotRequired[int | None],
        "batch": NotRequired[str | None],
        "tags": NotRequired[list[str] | None],
        "metadata": NotRequired[dict[str, str] | None],
        "deadline": NotRequired[float | str | None],
        "startWithin": NotRequired[float | str | None],
        "polling": NotRequired[Polling | None],
        "onUnknownOutcome": NotRequired[Literal["ask", "fail", "retry"] | None],
        "decideWithin": NotRequired[float | str | None],
        "settle": NotRequired[float | str | None],
        "linger": NotRequired[float | str | None],
    },
)

# A job that exists upstream already, to attach to.
AttachJobInput = TypedDict(
    "AttachJobInput",
    {
        "projectId": str,
        "jobId": str,
        "usedFollowUpIds": NotRequired[list[str] | None],
        "priority": NotRequired[int | None],
        "batch": NotRequired[str | None],
        "tags": NotRequired[list[str] | None],
        "metadata": NotRequired[dict[str, str] | None],
        "deadline": NotRequired[float | str | None],
        "startWithin": NotRequired[float | str | None],
        "polling": NotRequired[Polling | None],
        "onUnknownOutcome": NotRequired[Literal["ask", "fail", "retry"] | None],
        "decideWithin": NotRequired[float | str | None],
        "settle": NotRequired[float | str | None],
        "linger": NotRequired[float | str | None],
    },
)

# The argument of `followUp` and `sendFollowUp`.
FollowUpInput = TypedDict(
    "FollowUpInput",
    {
        "prompt": str,
        "id": NotRequired[str | None],
        "priority": NotRequired[int | None],
    },
)

Source = TypedDict(
    "Source",
    {
        "repository": str | None,
        "ref": str | None,
    },
)

# The upstream's record of a job: the fields of its interface and no others, absent ones null.
JobRecord = TypedDict(
    "JobRecord",
    {
        "id": str,
        "status": str,
        "source": Source | None,
        "model": str | None,
        "prLink": str | None,
        "createdAt": str | None,
        "archivedAt": str | None,
    },
)

# The result of the update `sendFollowUp`.
FollowUpAnswer = TypedDict(
    "FollowUpAnswer",
    {
        "id": str,
        "state": Literal["abandoned", "queued", "rejected", "sent", "unknown"],
        "job": JobRecord | None,
    },
)

# One follow-up as shown by state and result; never its prompt.
FollowUpStatus = TypedDict(
    "FollowUpStatus",
    {
        "id": str,
        "state": Literal["abandoned", "queued", "rejected", "sent", "unknown"],
        "error": NotRequired[str],
    },
)

# A write in doubt: nobody knows whether the upstream accepted it. Times are ISO 8601 UTC with milliseconds.
InDoubtWrite = TypedDict(
    "InDoubtWrite",
    {
        "kind": Literal["create", "followUp"],
        "followUpId": NotRequired[str],
        "reason": str,
        "since": str,
        "lookAfter": str,
    },
)

# Why no request is under way. Times are ISO 8601 UTC with milliseconds.
Waiting = TypedDict(
    "Waiting",
    {
        "for": Literal["key", "linger", "person", "poll", "rateLimit", "settle", "turn", "upstream"],
        "since": str,
        "until": NotRequired[str],
        "position": NotRequired[int],
        "reason": NotRequired[str],
    },
)

# What a person decided about a write in doubt, once it was carried out.
Decision = TypedDict(
    "Decision",
    {
        "action": Literal["abandon", "adopt", "delivered", "retry"],
        "kind": Literal["create", "followUp"],
        "followUpId": NotRequired[str],
        "jobId": NotRequired[str],
        "by": NotRequired[str],
        "note": NotRequired[str],
        "at": str,
    },
)

# A job as the query `jobState` tells it. Times are ISO 8601 UTC with milliseconds.
JobState = TypedDict(
    "JobState",
    {
        "phase": Literal["creating", "done", "lingering", "needsAttention", "sending", "watching"],
        "projectId": str,
        "jobId": str | None,
        "job": JobRecord | None,
        "followUps": list[FollowUpStatus],
        "usedFollowUpIds": list[str],
        "promptHashes": dict[str, str],
        "unknown": InDoubtWrite | None,
        "waiting": Waiting | None,
        "decisions": list[Decision],
        "outcome": Literal[
            "Canceled",
            "CreateRejected",
            "InvalidInput",
            "Terminated",
            "TimedOut",
            "UnknownOutcome",
            "abandoned",
            "archived",
            "completed",
            "failed",
            "lost",
            "timedOut",
        ]
        | None,
        "tags": list[str],
        "metadata": dict[str, str],
        "startedAt": str,
        "lastChangeAt": str,
        "polls": int,
    },
)

# The result of `agentJob`.
AgentJobResult = TypedDict(
    "AgentJobResult",
    {
        "outcome": Literal["abandoned", "archived", "completed", "failed", "lost", "timedOut"],
        "jobId": str | None,
        "job": JobRecord | None,
        "projectId": str,
        "followUps": list[FollowUpStatus],
        "usedFollowUpIds": list[str],
        "promptHashes": dict[str, str],
        "decisions": list[Decision],
        "tags": list[str],
        "metadata": dict[str, str],
        "startedAt": str,
        "finishedAt": str,
        "polls": int,
    },
)

# Details of the failure `InvalidInput`, also of a refused update.
InvalidInputDetails = TypedDict(
    "InvalidInputDetails",
    {
        "field": str,
    },
)

# Details of the failure `CreateRejected`.
CreateRejectedDetails = TypedDict(
    "CreateRejectedDetails",
    {
        "status": int,
        "error": str,
    },
)

# Details of the failure `UnknownOutcome`.
UnknownOutcomeDetails = TypedDict(
    "UnknownOutcomeDetails",
    {
        "kind": Literal["create", "followUp"],
        "jobId": str | None,
        "followUpId": str | None,
        "reason": str,
    },
)
