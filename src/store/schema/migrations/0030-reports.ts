// Aggregate reports that others send about our domains. The primary keys of the metrics are their only copy, so that a
// year of reports stays small.

export const reports = `
create table aggregate_reports (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains on delete cascade,
  message_key integer,
  kind text not null,
  reporter text not null,
  authenticated integer not null,
  org text,
  report_id text,
  fingerprint blob,
  begin_at integer,
  end_at integer,
  outcome text not null,
  why text,
  form text,
  records integer not null,
  skipped_records integer not null,
  passed integer not null,
  failed integer not null,
  faults text not null,
  created_at integer not null
) strict;
create index aggregate_reports_by_domain on aggregate_reports (domain_key, created_at);
create unique index aggregate_reports_by_fingerprint on aggregate_reports (fingerprint) where fingerprint is not null;
create index aggregate_reports_by_message on aggregate_reports (message_key) where message_key is not null;

create table dmarc_figures (
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains on delete cascade,
  day integer not null,
  address text not null,
  addresses integer not null,
  messages integer not null,
  pass integer not null,
  dkim_pass integer not null,
  spf_pass integer not null,
  none integer not null,
  quarantine integer not null,
  reject integer not null,
  passed integer not null,
  evidence real not null,
  evidence_pass real not null,
  evidence_proven real not null,
  forwarded integer not null,
  both integer not null,
  reporters text not null,
  dkim_domains text not null,
  spf_domains text not null,
  primary key (domain_key, day, address)
) strict, without rowid;

create table tls_figures (
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains on delete cascade,
  day integer not null,
  reporter text not null,
  policy_type text not null,
  policy_domain text not null,
  success integer not null,
  failure integer not null,
  results text not null,
  primary key (domain_key, day, reporter, policy_type, policy_domain)
) strict, without rowid;

create table known_sources (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains on delete cascade,
  network text not null,
  name text not null,
  created_at integer not null
) strict;
create unique index known_sources_by_network on known_sources (domain_key, network);
`
