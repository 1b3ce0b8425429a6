// What the operator is told by mail when it lasts (M3, D194): for each grave thing how it is judged, and the sentence
// with what to do. What judges is what `postrider doctor` asks, and the troubles of /health.
import { HOUR, MINUTE } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Trouble, Troubles } from '../base/trouble.ts'
import type { LastingProblem } from '../accounts/operator-notices.ts'
import { graveBackups } from '../checks/doctor-backups.ts'
import { graveCertificates, judgeDisk, FIXES, type Finding } from '../checks/doctor-machine.ts'
import type { Reader } from '../store/database.ts'

/** What is judged beside the troubles: `about` is always in the same words for the same failure. */
type GraveFailure = Pick<LastingProblem, 'about' | 'says' | 'mend'>

interface Grave {
  /** The subject of the notice. */
  thing: string
  /** It is judged so often, and told when it has failed for so long (ms). */
  every: number
  lasts: number
  judge: (parts: GraveParts, now: number) => readonly GraveFailure[]
}

export interface GraveParts {
  config: Config
  store: Reader
  troubles: Pick<Troubles, 'list'>
}

const reported = (findings: readonly Finding[]): GraveFailure[] =>
  findings.map(({ check, detail, mend }) => ({ about: check, says: `${detail}.`, mend: mend ?? FIXES.log }))

const failures = (findings: readonly Finding[]): GraveFailure[] =>
  reported(findings.filter(({ status }) => status === 'fail'))

const GRAVE: readonly Grave[] = [
  {
    thing: 'disk',
    every: MINUTE,
    lasts: MINUTE,
    judge: ({ config }) => failures([judgeDisk(config)]),
  },
  // Late is 36 hours: nothing is waited for beyond that.
  {
    thing: 'backup',
    every: MINUTE,
    lasts: 0,
    judge: ({ config, store }, now) => reported(graveBackups(store, config, now)),
  },
  // A name that is new has none for some minutes.
  {
    thing: 'certificate',
    every: HOUR,
    lasts: HOUR,
    judge: ({ config }, now) => reported(graveCertificates(config, now)),
  },
]

/** The troubles of /health by their name; another one is a thing of its own. */
const TROUBLES: Readonly<Record<string, Pick<LastingProblem, 'thing' | 'about' | 'mend'>>> = {
  storage: { thing: 'disk', about: 'room', mend: FIXES.disk },
  store: { thing: 'database', about: 'the database', mend: FIXES.database },
  damage: { thing: 'database', about: 'damaged mail', mend: FIXES.damage },
  key: { thing: 'key', about: 'installation key', mend: FIXES.key },
  clock: { thing: 'clock', about: 'the date', mend: FIXES.date },
}

/** A trouble that ends within this time is not mailed. */
const LASTING = MINUTE

function ofTrouble({ name, sentence, since }: Trouble): LastingProblem {
  const { about, mend, thing } = TROUBLES[name] ?? { thing: name, about: name, mend: FIXES.log }
  return { thing, about, says: sentence, mend, since }
}

/** A function that says what fails at a time, and has failed long enough to be told. */
export function graveThings(parts: GraveParts): (now: number) => LastingProblem[] {
  const judged = GRAVE.map((grave) => ({ grave, at: -Infinity, found: [] as LastingProblem[] }))
  return (now) => {
    for (const each of judged) {
      const { every, judge, thing } = each.grave
      // A date that was set back must not hold it up.
      if (now >= each.at && now - each.at < every) continue
      each.at = now
      const before = new Map(each.found.map(({ about, since }) => [about, since]))
      try {
        each.found = judge(parts, now).map((one) => ({ thing, ...one, since: before.get(one.about) ?? now }))
      } catch {
        // The disk or the database does not answer: server/watch.ts reports that.
      }
    }
    return [
      ...parts.troubles
        .list()
        .filter(({ since }) => now - since >= LASTING)
        .map(ofTrouble),
      ...judged.flatMap(({ found, grave }) => found.filter(({ since }) => now - since >= grave.lasts)),
    ]
  }
}
