// The process of an attack on a form: 500 clients sign up 2,000 addresses of others 10,000 times, as fast as they can,
// and press the second button if there is one.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const SIGNUPS = 10_000
const ADDRESSES = 2000
const CLIENTS = 500
/** Requests at once. */
const AT_ONCE = 50

interface Target {
  port: number
  slug: string
  /** The origin of the website that has the form. */
  site: string
}

interface Flooded {
  seconds: number
  /** The number of sign-ups by the status of their last answer. */
  statuses: Record<string, number>
}

/** Starts an attack. */
export function flooding(target: Target): { ended: () => boolean; result: Promise<Flooded> } {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(target)])
  let ended = false
  const result = new Promise<Flooded>((resolve, reject) => {
    child.once('message', (flooded) => resolve(flooded as Flooded))
    child.once('exit', (code) => {
      ended = true
      reject(new Error(`the attack ended: ${code}`))
    })
  })
  return { ended: () => ended, result }
}

async function flood({ port, site, slug }: Target): Promise<Flooded> {
  const statuses: Record<string, number> = {}
  const signUp = async (n: number, check?: string): Promise<void> => {
    const email = `victim${n % ADDRESSES}@d${n % 20}.example`
    const fields = { email, version: '1', lang: 'en', ...(check !== undefined && { check }) }
    const client = n % CLIENTS
    const answer = await fetch(`http://127.0.0.1:${port}/f/${slug}`, {
      method: 'POST',
      body: new URLSearchParams(fields),
      headers: { origin: site, 'x-forwarded-for': `10.1.${client >> 8}.${client & 255}` },
    })
    const [, token] = /name="check" value="([^"]+)"/.exec(await answer.text()) ?? []
    if (token !== undefined && check === undefined) return signUp(n, token)
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
  }
  let next = 0
  const start = performance.now()
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      while (next < SIGNUPS) await signUp(next++)
    }),
  )
  return { seconds: (performance.now() - start) / 1000, statuses }
}

if (import.meta.main) {
  process.send!(await flood(JSON.parse(process.argv[2]!) as Target))
  process.disconnect!()
}
