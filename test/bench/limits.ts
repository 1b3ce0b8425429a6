// The limits of the machine itself, for comparison with the other results.
import { generateKeyPairSync, sign } from 'node:crypto'
import { closeSync, fdatasyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { figure } from './rig.ts'

/** Operations per second of a function run for about a second. */
function perSecond(work: () => void): number {
  const start = performance.now()
  let count = 0
  while (performance.now() - start < 1000) {
    work()
    count++
  }
  return (count / (performance.now() - start)) * 1000
}

export function limits(): void {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const text = Buffer.alloc(2048, 'a')
  figure(
    'limits',
    'rsa_2048_signatures_one_core',
    perSecond(() => void sign('sha256', text, privateKey)),
    'per s',
  )
  figure('limits', 'fsync_4_kb', syncsPerSecond(), 'per s')
}

/** Small writes that are on the disk, one after the other. */
export function syncsPerSecond(): number {
  const directory = mkdtempSync(join(process.env['TMPDIR'] ?? tmpdir(), 'postrider-bench-'))
  const file = openSync(join(directory, 'file'), 'w')
  const text = Buffer.alloc(2048, 'a')
  try {
    return perSecond(() => {
      writeSync(file, text)
      fdatasyncSync(file)
    })
  } finally {
    closeSync(file)
    rmSync(directory, { recursive: true })
  }
}
