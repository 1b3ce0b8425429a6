// The memory of another process.
import { readFileSync } from 'node:fs'

/** Resident memory in KB; 0 where the system does not tell. */
export function memoryOf(pid: number): number {
  try {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0)
  } catch {
    return 0
  }
}
