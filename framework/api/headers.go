package api

// IdempotencyKey is the header by which a client identifies a submission, so that a retry
// does not create a second job. Keys are scoped to the owner of the job and are valid as
// long as the scheduler remembers the job.
const IdempotencyKey = "Idempotency-Key"

// Headers of partial reads of a log.
const (
	// NextOffset is the trailer with the offset in the file where the response ends. A
	// response without it was truncated.
	NextOffset = "X-Next-Offset"
	// LogPreceding in a request has the bytes before the offset, at most MaxPreceding of
	// them, in base64. The position is then found even if the file was renamed. The
	// response covers only one file. Empty, with offset 0, it means the start of the log.
	LogPreceding = "X-Log-Tail"
	// LogOffset is the offset in the file where the response starts: the requested
	// offset, or 0 in the file that follows.
	LogOffset = "X-Log-Offset"
	// LogRotated is the trailer which says that another file follows.
	LogRotated = "X-Log-Rotated"
	// LogOutputLost means that the position was not found: output is missing, and the
	// response starts with the oldest file that is left.
	LogOutputLost = "X-Log-Missed"
)

// MaxPreceding limits LogPreceding, in bytes. These bytes identify a position in a
// log after its file was renamed.
const MaxPreceding = 128
