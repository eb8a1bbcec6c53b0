"""Features of the gateway, a folder each; `skerry.infra.features` lists them."""
