package api

// IdempotencyKey is the header by which a client identifies a submission, so that a retry
// does not create a second job. Keys are scoped to the owner of the job and are valid as
// long as the scheduler remembers the job.
const IdempotencyKey = "Idempotency-Key"

// NextOffset is the trailer of a log with the offset in its current file where the response ends. A
// response without it was truncated.
const NextOffset = "X-Next-Offset"

// StoredOutputMissing is the header of output that was stored when the task ended, because its sandbox can no longer be read.
// Its value is the number of bytes that the task wrote before what is stored.
const StoredOutputMissing = "X-Stored-Output-Missing"
