// serve.json in the data directory: data about the running server for commands. It contains its HTTP address, for
// `postrider health`, and the settings that have changed in the configuration since the start, for `postrider doctor`.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { isObject } from './json.ts'
import { formatEndpoint, isAddress, parseEndpoint } from './network.ts'
import { readNoted, replacePlain } from './plain-file.ts'

interface Endpoint {
  host: string
  port: number
}

const fileIn = (dataDir: string): string => join(dataDir, 'serve.json')

/** Writes the file. The answer removes it. `restart`: settings that need a restart. Throws the system's error. */
export function keepServed(dataDir: string, { host, port }: Endpoint, restart: readonly string[] = []): () => void {
  const file = fileIn(dataDir)
  const text = JSON.stringify({ http: formatEndpoint(host, port), restart_needed: restart })
  replacePlain(file, `${text}\n`, { lasting: false })
  return () => rmSync(file, { force: true })
}

/** The address, or undefined without a server, or when the file cannot be read or has no address. */
export function servedAt(dataDir: string): Endpoint | undefined {
  const { http } = readServed(dataDir)
  const at = typeof http === 'string' ? parseEndpoint(http) : undefined
  return at && isAddress(at.host) ? at : undefined
}

/** The settings that the running server reads at its next start, such as "smtp.listen". */
export function restartNeeded(dataDir: string): string[] {
  const { restart_needed: names } = readServed(dataDir)
  return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : []
}

function readServed(dataDir: string): Record<string, unknown> {
  try {
    const read: unknown = JSON.parse(readNoted(fileIn(dataDir)).toString())
    return isObject(read) ? read : {}
  } catch {
    return {}
  }
}
