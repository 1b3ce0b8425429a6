// npm run audit: fails when npm audit names a package of the lock file; says so in a line, and passes, where the
// registry does not answer it, as mirrors do not.
import { messageOf } from '../src/base/errors.ts'
import { npm } from './node.ts'

interface Advisory {
  title: string
  url: string
}

interface Report {
  /** Of a registry that did not answer. */
  message?: string
  vulnerabilities?: Record<string, { severity: string; range: string; via: (Advisory | string)[] }>
}

function asked(): Report {
  try {
    return JSON.parse(npm('audit', '--json', '--loglevel=silent')) as Report
  } catch (thrown) {
    // It ends with 1 when it has found something, and when it was not answered.
    const { stdout } = thrown as { stdout?: string }
    if (!stdout) throw thrown
    return JSON.parse(stdout) as Report
  }
}

try {
  const { message, vulnerabilities } = asked()
  if (vulnerabilities === undefined) console.log(`audit: not run, the registry does not answer it: ${message}`)
  else {
    const found = Object.entries(vulnerabilities)
    for (const [name, { range, severity, via }] of found) {
      const why = via.map((each) => (typeof each === 'string' ? `by ${each}` : `${each.title} (${each.url})`))
      console.error(`audit: ${name} ${range}, ${severity}: ${why.join('; ')}`)
    }
    if (found.length === 0) console.log('audit: no package has a known fault')
    else process.exitCode = 1
  }
} catch (thrown) {
  console.error(`audit: ${messageOf(thrown)}`)
  process.exitCode = 1
}
