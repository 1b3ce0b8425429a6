// npm run audit: fails if npm audit names a package of the lock file, or if the registry does not respond after
// retries. If a registry lacks this service, as mirrors do, it passes and prints that the packages were not checked.
import { messageOf } from '../src/base/errors.ts'
import { npm } from './node.ts'

interface Advisory {
  title: string
  url: string
}

interface Report {
  /** Of a registry that gave no report. */
  message?: string
  /** The HTTP status, if there was a response. */
  statusCode?: number
  vulnerabilities?: Record<string, { severity: string; range: string; via: (Advisory | string)[] }>
}

/** Responses of a registry without this service. */
const NO_SERVICE = [404, 405, 410, 501]
const RETRIES = 4

function asked(): Report {
  try {
    return JSON.parse(npm('audit', '--json', '--loglevel=silent', `--fetch-retries=${RETRIES}`)) as Report
  } catch (thrown) {
    // It ends with 1 when it has found something, and when it was not answered.
    const { stdout } = thrown as { stdout?: string }
    if (!stdout) throw thrown
    return JSON.parse(stdout) as Report
  }
}

try {
  const { message = 'npm audit gave no report', statusCode, vulnerabilities } = asked()
  if (vulnerabilities === undefined) {
    if (!NO_SERVICE.includes(statusCode ?? 0)) throw new Error(`the registry did not respond: ${message}`)
    console.log(`audit: SKIPPED because the registry has no audit service (${message})`)
  } else {
    const found = Object.entries(vulnerabilities)
    for (const [name, { range, severity, via }] of found) {
      const why = via.map((each) => (typeof each === 'string' ? `by ${each}` : `${each.title} (${each.url})`))
      console.error(`audit: ${name} ${range}, ${severity}: ${why.join('; ')}`)
    }
    if (found.length === 0) console.log('audit: no package has a known vulnerability')
    else process.exitCode = 1
  }
} catch (thrown) {
  console.error(`audit: ${messageOf(thrown)}`)
  process.exitCode = 1
}
