// Example command lines, shown at the end of each command's help. A test checks that every command has one and that it
// is valid.
import type { Command } from 'commander'

export const EXAMPLES: Record<string, readonly string[]> = {
  serve: ['postrider --config /etc/postrider/postrider.toml serve', 'postrider serve --instance shop'],
  standby: ['postrider standby', 'postrider standby --fenced'],
  handover: ['postrider handover'],
  'config compare': ['postrider config compare mx2.toml'],
  health: ['postrider health', 'postrider health --url http://127.0.0.1:8025', 'postrider health --serving'],
  dev: [
    'postrider dev',
    'postrider dev --http 18025',
    'postrider dev --http 127.0.0.1:18025 --smtp 127.0.0.1:12525 --data ./sandbox',
  ],
  init: [
    'postrider init',
    'postrider init --domain example.org --hostname mx.example.org --email you@example.org --data /var/lib/postrider',
    'postrider init --domain example.org --hostname mx.example.org --email you@example.org --accept-terms',
    'postrider init --instance shop --address 192.0.2.25',
  ],
  adopt: ['postrider adopt'],
  'user add': [
    'postrider user add ann@example.org --name "Ann Owner" --invite',
    'postrider user add ann@example.org --plan growth --password-stdin < password.txt',
    'postrider user add ben@example.org --password-stdin < password.txt',
  ],
  'user invite': [
    'postrider user invite ann@example.org',
    'postrider user invite ben@example.org --account ann@example.org --role marketer',
  ],
  'user role': [
    'postrider user role ben@example.org developer --account ann@example.org',
    'postrider user role ben@example.org none --account ann@example.org',
  ],
  audit: ['postrider audit --user ann@example.org', 'postrider --json audit --limit 1000'],
  'user lock': ['postrider user lock ann@example.org', 'postrider user lock ann@example.org --yes'],
  'user reset-mfa': ['postrider user reset-mfa ann@example.org'],
  'user list': ['postrider user list'],
  'user passwd': ['postrider user passwd ann@example.org < password.txt'],
  'user set': [
    'postrider user set ann@example.org --summary daily',
    'postrider user set ann@example.org --operator yes',
    'postrider user set ben@example.org --operator no',
  ],
  'user remove': ['postrider user remove ann@example.org', 'postrider user remove ann@example.org --yes'],
  'subscription set': [
    'postrider subscription set ann@example.org --plan growth',
    'postrider subscription set ann@example.org --downgrade-to unlimited --at 2027-01-01',
  ],
  'token create': [
    'postrider token create --user ann@example.org --name backend --scopes all --duration 12_months',
    'postrider token create --user ann@example.org --name shop --scopes emails:send,emails:read --duration 1_month',
    'postrider token create --user ann@example.org --name printer --scopes emails:send --duration 12_months --agent printer --daily 200',
  ],
  'token set': ['postrider token set 01985c7e-7c1a-7000-8000-000000000001 --agent printer --daily 200'],
  'token list': ['postrider token list --user ann@example.org'],
  'token revoke': ['postrider token revoke 01985c7e-7c1a-7000-8000-000000000001'],
  'oauth allow': ['postrider oauth allow claude', 'postrider oauth allow https://agent.example.org'],
  'oauth disallow': ['postrider oauth disallow claude'],
  'oauth list': ['postrider oauth list'],
  'grant list': ['postrider grant list'],
  'grant revoke': ['postrider grant revoke 01985c7e-7c1a-7000-8000-000000000001'],
  'domain add': [
    'postrider domain add example.org --user ann@example.org',
    'postrider domain add news.example.org --user ann@example.org --purpose marketing --tls-policy Require',
  ],
  'domain list': ['postrider domain list'],
  'domain show': ['postrider domain show example.org'],
  'mail find': [
    'postrider mail find ada@example.com',
    'postrider mail find ada@example.com --domain example.org --since 2026-11-01',
  ],
  why: [
    'postrider why 01985c7e-7c1a-7000-8000-000000000001',
    'postrider why example.org --since 2026-11-01',
    'postrider --json why Google',
  ],
  'mail show': ['postrider mail show 01985c7e-7c1a-7000-8000-000000000001'],
  'agent pause': ['postrider agent pause newsletter-bot'],
  'agent resume': ['postrider agent resume newsletter-bot --user ann@example.org'],
  usage: ['postrider usage', 'postrider --json usage'],
  version: ['postrider version', 'postrider --json version'],
  upgrade: ['postrider upgrade --check ./new/usr/bin/postrider', 'postrider upgrade', 'postrider upgrade --rollback'],
  'domain sts': ['postrider domain sts example.org --mode testing', 'postrider domain sts example.org --mode enforce'],
  'domain dmarc': [
    'postrider domain dmarc example.org',
    'postrider domain dmarc example.org --policy quarantine',
    'postrider domain dmarc example.org --known-source 198.51.100.0/24 --name "newsletter service"',
  ],
  'domain reports': ['postrider domain reports example.org --kind dmarc --since 2026-11-01'],
  'domain records': ['postrider domain records example.org'],
  'domain check': ['postrider domain check example.org'],
  'domain rotate-dkim': ['postrider domain rotate-dkim example.org'],
  'domain resume': ['postrider domain resume example.org'],
  'domain remove': ['postrider domain remove example.org --user ann@example.org'],
  'inbox add': ['postrider inbox add support@example.org --user ann@example.org --name Support'],
  'inbox list': ['postrider inbox list'],
  'inbox remove': ['postrider inbox remove support@example.org'],
  'form list': ['postrider form list'],
  'form show': ['postrider form show acme-news'],
  'form open': ['postrider form open acme-news'],
  'form pause': ['postrider form pause acme-news'],
  'form close': ['postrider form close acme-news'],
  'consent show': [
    'postrider consent show reader@example.net',
    'postrider consent show reader@example.net --account ann@example.org',
  ],
  'contacts import': [
    'postrider contacts import Readers readers.csv --dry-run',
    'postrider contacts import Readers subscribed_members_export.csv --from mailchimp',
    'postrider contacts import Readers list.csv --map email=Mail --map city=Ort --map status=Zustand',
    'postrider contacts import Readers shop.csv --consent "Box ticked in our shop" --consent-date "Ordered at"',
    'gunzip -c list.csv.gz | postrider contacts import Readers -',
  ],
  'contacts export': [
    'postrider contacts export Readers > readers.csv',
    'postrider contacts export Readers --segment Ghent > ghent.csv',
  ],
  'segment list': ['postrider segment list Readers'],
  'segment count': ['postrider segment count Readers Ghent'],
  'queue lanes': ['postrider queue lanes'],
  'source list': ['postrider source list'],
  'queue list': ['postrider queue list --domain example.org'],
  'queue show': ['postrider queue show 01985c7e-7c1a-7000-8000-000000000001'],
  'queue retry': ['postrider queue retry 01985c7e-7c1a-7000-8000-000000000001', 'postrider queue retry --all'],
  'queue hold': [
    'postrider queue hold 01985c7e-7c1a-7000-8000-000000000001',
    'postrider queue hold --lane example.net',
  ],
  'queue release': [
    'postrider queue release 01985c7e-7c1a-7000-8000-000000000001',
    'postrider queue release --lane example.net',
  ],
  'queue drop': [
    'postrider queue drop 01985c7e-7c1a-7000-8000-000000000001',
    'postrider queue drop --lane example.net',
  ],
  'suppression add': ['postrider suppression add bob@there.example --domain example.org --scope marketing'],
  'suppression list': ['postrider suppression list --domain example.org'],
  'suppression remove': ['postrider suppression remove bob@there.example --domain example.org'],
  'suppression import': [
    'postrider suppression import suppression_bounces.csv --domain example.org --from sendgrid',
    'aws sesv2 list-suppressed-destinations | postrider suppression import - --domain example.org --from ses',
    'postrider suppression import complaints.csv --domain example.org --reason complaint',
  ],
  'suppression export': ['postrider suppression export --domain example.org > suppressions.csv'],
  'agent list': ['postrider agent list'],
  'warmup show': ['postrider warmup show', 'postrider warmup show --source 192.0.2.1 --receiver Google'],
  'warmup set': ['postrider warmup set Google --daily-limit 5000', 'postrider warmup set "*" --daily-limit 20000'],
  'warmup skip': ['postrider warmup skip example.net', 'postrider warmup skip --all --source 192.0.2.1'],
  'warmup restart': ['postrider warmup restart Google'],
  'watch list': ['postrider watch list'],
  'watch now': ['postrider watch now'],
  doctor: ['postrider doctor', 'postrider doctor --probe outlook.com --time-server time.example.org:123'],
  'report read': ['postrider report read google.com!example.org!1764028800!1764115199.zip'],
  send: ['postrider send --from hello@example.org --to you@elsewhere.example --subject Hello'],
  'webhook test': [
    'postrider webhook test https://app.example.org/hooks/mail',
    'postrider webhook test https://app.example.org/hooks/mail --event email.bounced',
  ],
  notices: ['postrider notices'],
  'export list': ['postrider export list'],
  'export fetch': ['postrider export fetch 01985c7e-7c1a-7000-8000-000000000001 --out - >bundle.zip'],
  backup: ['postrider backup - >postrider.zip', 'postrider backup /backups/postrider.zip'],
  'backup now': ['postrider backup now'],
  'backup list': ['postrider backup list'],
  'backup key': ['postrider backup key'],
  'backup drill': ['postrider backup drill', 'postrider backup drill --identity drill.key /mnt/backups'],
  restore: [
    'postrider restore /backups/postrider.zip',
    'postrider restore - <postrider.zip',
    'postrider restore --ledger /old/erasures.ledger /backups/postrider.zip',
  ],
  verify: ['postrider verify'],
  openapi: ['postrider openapi > openapi.json'],
  completion: [
    'source <(postrider completion bash)',
    'postrider completion zsh > "${fpath[1]}/_postrider"',
    'postrider completion fish > ~/.config/fish/completions/postrider.fish',
  ],
  help: ['postrider help domain add'],
}

/** Commands that do something themselves, with their paths: those without subcommands, and those with arguments. */
export function leaves(command: Command, path: readonly string[] = []): [string, Command][] {
  const own: [string, Command][] =
    command.commands.length === 0 || command.registeredArguments.length > 0 ? [[path.join(' '), command]] : []
  return [...own, ...command.commands.flatMap((child) => leaves(child, [...path, child.name()]))]
}

export function addExamples(program: Command): void {
  for (const [path, command] of leaves(program)) {
    const lines = EXAMPLES[path] ?? []
    if (lines.length > 0)
      command.addHelpText(
        'after',
        `\n${lines.length === 1 ? 'Example' : 'Examples'}:\n${lines.map((line) => `  ${line}`).join('\n')}`,
      )
  }
}
