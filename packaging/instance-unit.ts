// postrider@.service, the template of several instances on one machine, made from postrider.service.

/** The lines that differ. Each must be in the unit. */
const CHANGES: readonly (readonly [unit: string, template: string])[] = [
  ['Description=Postrider email server\n', 'Description=Postrider email server, instance %i\n'],
  ['/etc/postrider/postrider.toml', '/etc/postrider/%i.toml'],
  ['run postrider init"', 'run postrider init --instance %i"'],
  ['/usr/bin/postrider serve\n', '/usr/bin/postrider serve --instance %i\n'],
  ['User=postrider\n', 'User=postrider-%i\n'],
  ['Group=postrider\n', 'Group=postrider-%i\n'],
  ['StateDirectory=postrider\n', 'StateDirectory=postrider-%i\n'],
  ['WorkingDirectory=%S/postrider\n', 'WorkingDirectory=%S/postrider-%i\n'],
  // Every instance gets the same share of CPU time and disk throughput, however many threads it runs.
  ['LimitNOFILE=', 'CPUWeight=100\nIOWeight=100\nLimitNOFILE='],
]

const HEAD = `# systemd template of Postrider, for several instances on one machine. The Debian package installs it. Run as root:
#
#   postrider init --instance NAME
#   systemctl enable --now postrider@NAME
#
# It runs as the user postrider-NAME, stores its data in /var/lib/postrider-NAME and reads /etc/postrider/NAME.toml. To
# change one instance, use "systemctl edit postrider@NAME"; to change all, "systemctl edit postrider@".
`

/** Returns the template. Throws an Error if the unit lacks a line that differs. */
export function instanceUnit(unit: string): string {
  const body = CHANGES.reduce(
    (text, [from, to]) => {
      if (!text.includes(from)) throw new Error(`postrider.service does not contain ${JSON.stringify(from)}`)
      return text.replaceAll(from, to)
    },
    unit.slice(unit.indexOf('[Unit]')),
  )
  return HEAD + body
}
