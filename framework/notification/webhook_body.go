package notification

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// Headers of a webhook's request.
const (
	SignatureHeader = "X-Mesos-Gpu-Signature"
	IDHeader        = "X-Mesos-Gpu-Notification"
	AttemptHeader   = "X-Mesos-Gpu-Attempt"
)

// webhookVersion is the version of the body. It changes if a field changes its meaning.
const webhookVersion = 1

// WebhookBody returns the body of a webhook's request. It is the same in each attempt.
func WebhookBody(n *Notification) ([]byte, error) {
	return json.Marshal(struct {
		Version int    `json:"version"`
		ID      string `json:"id"`
		Facts
	}{webhookVersion, n.ID, n.Facts})
}

// Sign returns the value of the signature's header: the time in seconds, and for each secret the HMAC-SHA256 of the time,
// a dot and the body. Two secrets are used while one replaces the other.
func Sign(secrets [][]byte, now time.Time, body []byte) string {
	at := strconv.FormatInt(now.Unix(), 10)
	parts := []string{"t=" + at}
	for _, secret := range secrets {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(at + "."))
		mac.Write(body)
		parts = append(parts, "v1="+hex.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(parts, ",")
}
