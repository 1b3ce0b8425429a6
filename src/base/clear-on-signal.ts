// Cleans up after a command that a signal stops.

/**
 * Calls `clear` when SIGINT or SIGTERM comes, and then ends by that signal. Returns the function that no longer hears
 * them.
 */
export function clearOnSignal(clear: () => void): () => void {
  const heard = (signal: NodeJS.Signals): void => {
    unheard()
    try {
      clear()
    } finally {
      process.kill(process.pid, signal)
    }
  }
  const unheard = (): void => void process.off('SIGINT', heard).off('SIGTERM', heard)
  process.on('SIGINT', heard).on('SIGTERM', heard)
  return unheard
}
