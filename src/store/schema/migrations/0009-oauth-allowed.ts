// Redirect targets that the operator allows for applications, in addition to those of the configuration.
export const oauthAllowed = `
create table oauth_allowed (
  name text primary key,
  created_at integer not null
) strict, without rowid;
`
