"""The pages made from the zoo: `docs/REPRODUCTION.md` and `docs/GALLERY.md`."""
