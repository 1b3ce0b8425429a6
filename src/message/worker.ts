// The worker thread that composes and signs. It keeps parsed keys; a mail comes in as data and leaves as the bytes for DATA.
import { createPrivateKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { parentPort } from 'node:worker_threads'
import { messageOf } from '../base/errors.ts'
import type { Reply } from '../base/pool.ts'
import { compose, toWire, type Mail } from './compose.ts'
import { sign } from './dkim.ts'

export interface ComposeJob {
  mail: Omit<Mail, 'html' | 'text'>
  /** JSON {html, text}, or the file that holds it. */
  content: { json: string } | { file: string }
  signature: { domain: string; selector: string; keyId: string; privateKey: string }
}

/** Keys are dropped, all at once, beyond this many. */
const MAX_KEYS = 1000
const keys = new Map<string, KeyObject>()

function keyOf({ keyId, privateKey }: ComposeJob['signature']): KeyObject {
  let key = keys.get(keyId)
  if (!key) {
    if (keys.size >= MAX_KEYS) keys.clear()
    key = createPrivateKey(privateKey)
    keys.set(keyId, key)
  }
  return key
}

/** The bytes that follow DATA, final dot included. */
export function composeAndSign({ mail, content, signature }: ComposeJob): Uint8Array<ArrayBuffer> {
  const json = 'json' in content ? content.json : readFileSync(content.file, 'utf8')
  const message = compose({ ...mail, ...(JSON.parse(json) as { html: string; text: string | null }) })
  const signed = sign(message, { domain: signature.domain, selector: signature.selector, privateKey: keyOf(signature) })
  return new Uint8Array(toWire(signed))
}

parentPort?.on('message', ({ id, job }: { id: number; job: ComposeJob }) => {
  try {
    const value = composeAndSign(job)
    parentPort!.postMessage({ id, value } satisfies Reply, [value.buffer])
  } catch (thrown) {
    parentPort!.postMessage({ id, error: messageOf(thrown) } satisfies Reply)
  }
})
