// The URLs that recipients' mail clients use without a token: the tracking pixel and tracked links (D38).
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { Hono, type Context } from 'hono'
import type { Clock } from '../base/clock.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { openPlainHandle } from '../base/plain-file.ts'
import { domainOfStsHost, stsPolicy } from '../domains/inbound-sts.ts'
import { readClickToken, readOpenToken } from '../message/tracking.ts'
import { noteVisit } from '../mail/tracking.ts'
import { EXPORTS, exportFile } from '../privacy/requests.ts'
import type { Store } from '../store/database.ts'

export interface PublicDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  log: Log
  config: { data_dir: string; hostname: string }
}

/** A transparent GIF of one pixel. */
const PIXEL = new Uint8Array(Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64'))
const MAX_TOKEN = 8000
const PRIVATE = { 'Cache-Control': 'no-store', 'Referrer-Policy': 'no-referrer', 'X-Robots-Tag': 'noindex' }

export function createPublic(deps: PublicDeps): Hono {
  const app = new Hono()
  const key = deps.keyring.derive('tracking')
  const visit = (context: Context) => ({ method: context.req.method, userAgent: context.req.header('user-agent') })
  // The reader gets the page even if the visit cannot be recorded.
  const note = async (work: Promise<void>): Promise<void> =>
    void (await work.catch((thrown: unknown) => deps.log.fault('tracking', thrown)))

  app.get('/.well-known/mta-sts.txt', (context) => {
    const host = (context.req.header('host') ?? '').replace(/:\d+$/, '').toLowerCase()
    const domain = domainOfStsHost(deps.store, host)
    if (!domain) return context.text('Not found.\n', 404)
    return context.body(stsPolicy(domain.sts_mode, deps.config.hostname), 200, { 'Content-Type': 'text/plain' })
  })
  app.get('/t/o/:file', async (context) => {
    const [, token] = /^([\w-]+)\.gif$/.exec(context.req.param('file')) ?? []
    const delivery = token !== undefined && token.length < MAX_TOKEN ? readOpenToken(key, token) : undefined
    if (delivery === undefined) return context.text('Not found.\n', 404)
    await note(noteVisit(deps, 'opened', delivery, visit(context)))
    return context.body(PIXEL, 200, { 'Content-Type': 'image/gif', ...PRIVATE })
  })
  app.get('/t/c/:token', async (context) => {
    const token = context.req.param('token')
    const click = token.length < MAX_TOKEN ? readClickToken(key, token) : undefined
    if (!click) return context.text('This link is not one of ours, or was cut on its way.\n', 404)
    await note(noteVisit(deps, 'clicked', click.delivery, visit(context), click.url))
    // A header can contain only ASCII.
    const location = /^[\x21-\x7e]*$/.test(click.url) ? click.url : new URL(click.url).href
    return context.body(null, 302, { Location: location, ...PRIVATE })
  })
  app.get('/exports/:id/:until/:mac', async (context) => {
    const { id, mac, until } = context.req.param()
    const file = exportFile(deps, { id, until, mac }, deps.clock.now())
    // Opened before the answer starts, because an open file can be read to its end even after it is deleted.
    const opened = file && (await openPlainHandle(join(deps.config.data_dir, EXPORTS, file)).catch(() => undefined))
    if (!opened) return context.text('This link does not work, or its time is over.\n', 404)
    // The response to HEAD has no body, so the file would never be read or closed.
    const headerAlone = context.req.method === 'HEAD'
    if (headerAlone) await opened.close()
    const bytes = headerAlone ? null : (Readable.toWeb(opened.createReadStream()) as ReadableStream)
    return context.newResponse(bytes, 200, {
      'Content-Type': 'application/zip',
      'Content-Disposition': `attachment; filename="${file}"`,
      ...PRIVATE,
    })
  })
  return app
}
