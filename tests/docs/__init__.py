"""The pages are tested like code: their links, their snippets, and the site that is made of them."""
