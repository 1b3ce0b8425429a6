// The functions that check the signature of a webhook's request, as docs/webhooks.md gives them to receivers: a test
// holds that they are the same, and others run them.
import type { SampleLanguage } from './samples.ts'

const NODE = `import { createHmac, timingSafeEqual } from 'node:crypto'

/** \`header\` gives a header: (name) => request.headers.get(name), or (name) => request.headers[name] in Node. */
export function isGenuine(secret: string, header: (name: string) => string | null | undefined, rawBody: string | Uint8Array): boolean {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) => header(name) ?? '')
  if (!/^\\d{1,12}$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > 300) return false
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64')
  const mac = createHmac('sha256', key).update(\`\${id}.\${timestamp}.\`).update(rawBody).digest('base64')
  const expected = Buffer.from(\`v1,\${mac}\`)
  return signatures.split(' ').map((each) => Buffer.from(each)).some((given) => given.length === expected.length && timingSafeEqual(given, expected))
}`

const PYTHON = String.raw`import base64, hashlib, hmac, re, time

def is_genuine(secret, headers, raw_body):
    """headers: anything with get(name); raw_body: bytes."""
    id, timestamp, signatures = (headers.get(name) or "" for name in ("webhook-id", "webhook-timestamp", "webhook-signature"))
    if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(time.time() - int(timestamp)) > 300:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{id}.{timestamp}.".encode("utf-8", "replace") + raw_body
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(expected, each.encode("utf-8", "replace")) for each in signatures.split())`

const PHP = String.raw`/** $headers by lower-case name; $rawBody from file_get_contents('php://input'). */
function is_genuine(string $secret, array $headers, string $rawBody): bool {
  [$id, $timestamp, $signatures] = array_map(fn ($name) => (string) ($headers[$name] ?? ''), ['webhook-id', 'webhook-timestamp', 'webhook-signature']);
  if (!preg_match('/^[0-9]{1,12}$/D', $timestamp) || abs(time() - (int) $timestamp) > 300) return false;
  $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
  $expected = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$rawBody", $key, true));
  $matches = array_filter(explode(' ', $signatures), fn ($each) => hash_equals($expected, $each));
  return count($matches) > 0;
}`

const GO = String.raw`import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func IsGenuine(secret string, header http.Header, rawBody []byte) bool {
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	key, malformed := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	now := time.Now().Unix()
	if err != nil || malformed != nil || seconds < now-300 || seconds > now+300 {
		return false
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(rawBody)
	expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	for _, each := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(each), expected) {
			return true
		}
	}
	return false
}`

export const VERIFIERS: readonly (readonly [language: SampleLanguage, code: string])[] = [
  ['Node', NODE],
  ['Python', PYTHON],
  ['PHP', PHP],
  ['Go', GO],
]
